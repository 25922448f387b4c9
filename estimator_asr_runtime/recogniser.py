"""Speech to text: acoustic model -> search -> language model -> transcript, times and confidences.

Equivalent to estimator_asr/exporting/saved_model/cascade.py, one utterance at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from estimator_asr_runtime import (
    audio,
    backends,
    beam_search,
    errors,
    hotwords,
    joining,
    ranking,
    statuses,
    token_times,
    writing,
)
from estimator_asr_runtime import model as model_lib

_TOLERANCE = 0.01  # allowed error in log probabilities


class Recogniser:
    """Recognises utterances with a loaded model."""

    def __init__(self, model: model_lib.Model, words: Sequence[str] = ()):
        """Parses `words`, the hotwords for all utterances; for their format, see hotwords.py.

        Raises errors.UserError if a hotword is malformed, or the model does not support hotwords.
        """
        self._model, self._hotwords = model, hotwords.parse(model, words)
        self._scorers = _list_scorers(model, self._hotwords)

    def recognise_file(self, path: str) -> dict:
        """Recognises an audio file in any format that libsndfile supports.

        For the result, see recognise; for the errors, see audio.read and recognise.
        """
        settings = self._model.settings
        read = audio.read(path, settings.sample_rate, settings.max_seconds)
        if read.status not in (statuses.OK, statuses.UNFINISHED):
            return self._punctuate(make_empty(read.status))
        result = self.recognise(read.waveform)
        return {**result, "status": read.status} if result["status"] == statuses.OK else result

    def recognise(self, waveform: np.ndarray) -> dict:
        """Recognises a waveform, float32 [num_samples] at the model's sample rate, with full scale 1.

        Returns:
            A dict of transcript, pinyin and greedy_pinyin (str; greedy_pinyin comes from greedy decoding);
            acoustic_score, language_score and confidence (float); status (str, see statuses.py); characters,
            a list of dicts with character, pinyin, start and end (in seconds) and confidence; and n_best, a
            list of dicts with transcript and score, best first. With a punctuation model, also punctuated
            (str, the transcript with marks) and written (str, the same with numbers in digits), and each dict
            in characters also has mark (str, the mark after the character, or "").

        Raises errors.UserError if the type or rank of the waveform is wrong, or the graphs return invalid
        probabilities.
        """
        settings = self._model.settings
        if waveform.dtype.kind != "f" or waveform.ndim != 1:
            kind = f"type {waveform.dtype} and rank {waveform.ndim}"
            raise errors.UserError(
                f"the waveform has {kind}, expected type float32, rank 1 and full scale 1; convert it"
            )
        max_samples = settings.max_seconds * settings.sample_rate
        status = statuses.check(waveform, settings.min_samples, max_samples)
        if status != statuses.OK:
            return self._punctuate(make_empty(status))
        return self._transcribe(waveform)

    def _transcribe(self, waveform: np.ndarray) -> dict:
        model = self._model
        outputs = model.acoustic.run({"waveform": np.asarray(waveform, np.float32)[None]})
        log_probs = outputs["log_probs"][0]
        if not _are_log_probs(log_probs):
            problem = f"the acoustic graph returned no valid log probabilities ({len(log_probs)} frames)"
            raise errors.UserError(f"{model.path}: {problem}; export the model again")
        hypotheses = beam_search.search(model.settings.acoustic, log_probs, self._scorers)
        if model.decoder:
            hypotheses = _attend(model, outputs["encoding"], hypotheses)
        return self._punctuate(self._describe(log_probs, hypotheses))

    def _describe(self, log_probs: np.ndarray, hypotheses: list[beam_search.Hypothesis]) -> dict:
        model = self._model
        tokens = [[model.tokens[index] for index in hypothesis.ids] for hypothesis in hypotheses]
        is_joined = model.language is not None and model.settings.token_type == "initial_final"
        units = [joining.join_syllables(row) for row in tokens] if is_joined else tokens
        spellings = writing.write(model, units)
        if model.language is not None and self._hotwords:
            pairs = zip(spellings, hypotheses)
            spellings = [hotwords.write(self._hotwords, spelling, one.ids) for spelling, one in pairs]
        weight = np.float32(model.settings.acoustic.language_weight)
        scores = [one.score + weight * spelling.score for one, spelling in zip(hypotheses, spellings)]
        texts = [model.settings.joining.join(spelling.strings) for spelling in spellings]
        ranked = ranking.rank(scores, texts, model.path)
        best = ranked[0].place
        times = token_times.align(log_probs, hypotheses[best].ids)
        times = joining.merge_times(times, tokens[best]) if is_joined else times
        return {
            "transcript": ranked[0].transcript,
            "pinyin": " ".join(tokens[best]),
            "greedy_pinyin": " ".join(model.tokens[index] for index in beam_search.best_path(log_probs)),
            "acoustic_score": _to_float(hypotheses[best].acoustic_score),
            "language_score": _to_float(spellings[best].score),
            "status": statuses.OK,
            **self._describe_characters(spellings[best], units[best], times),
            "n_best": [{"transcript": row.transcript, "score": _to_float(row.score)} for row in ranked],
        }

    def _punctuate(self, result: dict) -> dict:
        return self._model.punctuation.punctuate(result) if self._model.punctuation else result

    def _describe_characters(self, spelling: writing.Written, units: Sequence[str], times) -> dict:
        """Returns the characters and their mean confidence; `units` is the pinyin of each string."""
        settings = self._model.settings
        confidences = ranking.calibrate(times.probs * spelling.probs, settings.acoustic)
        seconds = np.float32(settings.output_seconds)
        starts, ends = (seconds * np.float32(frames) for frames in (times.starts, times.ends))
        columns = (map(_to_float, values) for values in (starts, ends, confidences))
        names = "character", "pinyin", "start", "end", "confidence"
        rows = [dict(zip(names, row)) for row in zip(spelling.strings, units, *columns)]
        mean = np.sum(confidences) / np.float32(max(len(confidences), 1))
        return {"confidence": _to_float(mean), "characters": [row for row in rows if row["character"]]}


def make_empty(status: str) -> dict:
    """Returns the result of an utterance whose status is not ok."""
    texts = dict.fromkeys(("transcript", "pinyin", "greedy_pinyin"), "")
    scores = dict.fromkeys(("acoustic_score", "language_score", "confidence"), 0.0)
    return {
        **texts,
        **scores,
        "status": status,
        "characters": [],
        "n_best": [{"transcript": "", "score": 0.0}],
    }


def _are_log_probs(log_probs: np.ndarray) -> bool:
    """Returns True if there are frames, and each frame's highest value could be a log probability."""
    highest, lowest_possible = np.max(log_probs, axis=1), -np.log(log_probs.shape[1])
    is_possible = (highest > lowest_possible - _TOLERANCE) & (highest < _TOLERANCE)  # False for NaN
    return len(log_probs) > 0 and bool(np.all(is_possible))


def _list_scorers(model: model_lib.Model, words: Sequence[hotwords.Hotword]) -> list:
    """Returns the scorers that add to the CTC scores: the n-gram model and the hotwords, if any."""
    chosen = [] if model.acoustic_ngram is None else [model.acoustic_ngram]
    return [*chosen, hotwords.HotwordScorer(words)] if words else chosen


def _attend(model: model_lib.Model, encoding: np.ndarray, hypotheses: list) -> list[beam_search.Hypothesis]:
    """Adds the attention decoder's weighted scores; returns the rescored hypotheses, best first."""
    ids = [hypothesis.ids for hypothesis in hypotheses]
    outputs = backends.run_on_sequences(model.decoder, ids, encoding=encoding)
    added = np.float32(model.settings.acoustic.attention_weight) * outputs["scores"]
    added = np.where(np.isnan(added), np.float32(-np.inf), added)
    rescored = [one._replace(score=one.score + score) for one, score in zip(hypotheses, added)]
    return sorted(rescored, key=lambda hypothesis: -hypothesis.score)


def _to_float(number: np.floating) -> float:
    return float(str(number))  # 0.12 instead of 0.11999999731
