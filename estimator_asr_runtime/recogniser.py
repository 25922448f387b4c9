"""Speech to text: acoustic model -> search -> language model -> transcript, times and confidences.

Equals estimator_asr/saved_model/cascade.py, one utterance at a time.
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
    ranking,
    statuses,
    syllables,
    token_times,
    writing,
)
from estimator_asr_runtime import model as model_lib

_TOLERANCE = 0.01  # of log probabilities


class Recogniser:
    """Recognises utterances by a loaded model."""

    def __init__(self, model: model_lib.Model, words: Sequence[str] = ()):
        """Takes hotwords for all utterances, in the form that hotwords.py describes.

        Raises errors.UserError if one has another form, or the model takes none.
        """
        self._model, self._hotwords = model, hotwords.parse(model, words)
        self._scorers = _list_scorers(model, self._hotwords)

    def recognise_file(self, path: str) -> dict:
        """Recognises an audio file of any format of libsndfile; see recognise.

        Raises errors.UserError if the file cannot be opened.
        """
        settings = self._model.settings
        read = audio.read(path, settings.sample_rate, settings.max_seconds)
        if read.status not in (statuses.OK, statuses.UNFINISHED):
            return make_empty(read.status)
        result = self.recognise(read.waveform)
        return {**result, "status": read.status} if result["status"] == statuses.OK else result

    def recognise(self, waveform: np.ndarray) -> dict:
        """Recognises an utterance, float32 [num_samples] at the sample rate of the model, full scale 1.

        Returns:
            transcript, pinyin and greedy_pinyin (str; the latter of the best path), acoustic_score,
            language_score and confidence (float), status (str, of statuses.py); characters, a list of dicts
            with character, pinyin, start and end (seconds) and confidence; n_best, a list of dicts with
            transcript and score, best first.

        Raises:
            errors.UserError: it has another type or rank, or the graphs give no probabilities for it.
        """
        settings = self._model.settings
        if waveform.dtype.kind != "f" or waveform.ndim != 1:
            got = f"{waveform.dtype} of rank {waveform.ndim}"
            raise errors.UserError(
                f"waveform: is {got}, expected float32 of rank 1, full scale 1; convert it"
            )
        max_samples = settings.max_seconds * settings.sample_rate
        status = statuses.check(waveform, settings.min_samples, max_samples)
        return make_empty(status) if status != statuses.OK else self._transcribe(waveform)

    def _transcribe(self, waveform: np.ndarray) -> dict:
        model = self._model
        outputs = model.acoustic.run({"waveform": np.asarray(waveform, np.float32)[None]})
        log_probs = outputs["log_probs"][0]
        if not _are_log_probs(log_probs):
            problem = f"the acoustic graph gives {len(log_probs)} frames, which are no log probabilities"
            raise errors.UserError(f"{model.path}: {problem}, expected one frame or more; export again")
        found = beam_search.search(model.settings.acoustic, log_probs, self._scorers)
        if model.decoder:
            found = _attend(model, outputs["encoding"], found)
        return self._describe(log_probs, found)

    def _describe(self, log_probs: np.ndarray, found: list[beam_search.Hypothesis]) -> dict:
        model = self._model
        tokens = [[model.tokens[index] for index in each.ids] for each in found]
        is_joined = model.language is not None and model.settings.token_type == "initial_final"
        spoken = [syllables.join(each) for each in tokens] if is_joined else tokens
        written = self._write(spoken, found)
        weight = np.float32(model.settings.acoustic.language_weight)
        scores = [each.score + weight * text.score for each, text in zip(found, written)]
        texts = [model.settings.joining.join(each.strings) for each in written]
        ranked = ranking.rank(scores, texts, model.path)
        best = ranked[0].place
        times = token_times.align(log_probs, found[best].ids)
        times = syllables.merge(times, tokens[best]) if is_joined else times
        return {
            "transcript": ranked[0].transcript,
            "pinyin": " ".join(tokens[best]),
            "greedy_pinyin": " ".join(model.tokens[index] for index in beam_search.best_path(log_probs)),
            "acoustic_score": _to_float(found[best].acoustic_score),
            "language_score": _to_float(written[best].score),
            "status": statuses.OK,
            **self._describe_characters(written[best], spoken[best], times),
            "n_best": [{"transcript": each.transcript, "score": _to_float(each.score)} for each in ranked],
        }

    def _write(self, spoken, found: list[beam_search.Hypothesis]) -> list[writing.Written]:
        written = writing.write(self._model, spoken)
        if self._model.language is None or not self._hotwords:
            return written
        return [hotwords.write(self._hotwords, text, each.ids) for text, each in zip(written, found)]

    def _describe_characters(self, written: writing.Written, spoken: Sequence[str], times) -> dict:
        """Returns characters and confidence; spoken tokens and their times are one for each string."""
        settings = self._model.settings
        confidences = ranking.calibrate(times.probs * written.probs, settings.acoustic)
        seconds = np.float32(settings.output_seconds)
        starts, ends = (seconds * np.float32(each) for each in (times.starts, times.ends))
        columns = (map(_to_float, each) for each in (starts, ends, confidences))
        names = "character", "pinyin", "start", "end", "confidence"
        rows = [dict(zip(names, row)) for row in zip(written.strings, spoken, *columns)]
        mean = np.sum(confidences) / np.float32(max(len(confidences), 1))
        return {"confidence": _to_float(mean), "characters": [row for row in rows if row["character"]]}


def make_empty(status: str) -> dict:
    """Returns the result of an utterance that is not ok."""
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
    """Returns whether there is a frame, and the highest value of each can be that of a distribution."""
    highest, lowest_possible = np.max(log_probs, axis=1), -np.log(log_probs.shape[1])
    is_possible = (highest > lowest_possible - _TOLERANCE) & (highest < _TOLERANCE)  # not for NaN
    return len(log_probs) > 0 and bool(np.all(is_possible))


def _list_scorers(model: model_lib.Model, words: Sequence[hotwords.Hotword]) -> list:
    """Returns what the search adds to the scores of CTC, but for the token bonus."""
    chosen = [] if model.acoustic_ngram is None else [model.acoustic_ngram]
    return [*chosen, hotwords.HotwordScorer(words)] if words else chosen


def _attend(model: model_lib.Model, encoding: np.ndarray, found: list) -> list[beam_search.Hypothesis]:
    """Returns the hypotheses ordered by their scores and weighted log probabilities of the decoder."""
    outputs = backends.run_on_sequences(model.decoder, [each.ids for each in found], encoding=encoding)
    added = np.float32(model.settings.acoustic.attention_weight) * outputs["scores"]
    added = np.where(np.isnan(added), np.float32(-np.inf), added)
    rescored = [each._replace(score=each.score + score) for each, score in zip(found, added)]
    return sorted(rescored, key=lambda each: -each.score)


def _to_float(number: np.floating) -> float:
    return float(str(number))  # 0.12 and not 0.11999999731
