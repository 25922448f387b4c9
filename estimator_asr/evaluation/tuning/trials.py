"""Trials of decoding settings: CTC log probabilities are computed once, then decoded in each trial."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf

from estimator_asr.decoding import sequences
from estimator_asr.experiment import config as config_lib
from estimator_asr.exporting.saved_model import cascade, proposals, recogniser, trained_model
from estimator_asr.inputs import input_fn, splits
from estimator_asr.models import acoustic as acoustic_lib
from estimator_asr.models import encoders
from estimator_asr.models.tasks import tasks
from estimator_asr.scoring import edit_distance, utterances
from tfrecord_builder import errors

_TOKENS, _CHARACTERS = utterances.TOKEN_ERROR_RATE, utterances.CHARACTER_ERROR_RATE
_TEXTS = ("pronunciation", "transcript")  # record features that hold reference texts

Batch = dict[str, np.ndarray]  # arrays by name; the first axis is the batch


def compute_posteriors(
    trained: trained_model.TrainedModel, source: splits.Split, max_utterances: int
) -> list[Batch]:
    """Computes CTC log probabilities for about max_utterances utterances of a split, chosen by hashed id.

    Returns:
        Batches of log_probs, float32 [batch, num_frames, num_classes]; num_frames, int32 [batch]; encoding,
        float32 [batch, num_frames, units], where units is 0 if there is no attention decoder; and the
        reference texts, pronunciation and transcript, bytes [batch].

    Raises errors.UserError if max_utterances is so small that no utterance is chosen.
    """
    model = trained.model
    with tf.Graph().as_default(), contextlib.closing(tf.compat.v1.Session()) as session:
        features = tasks.for_model(model).placeholders()
        outputs = tasks.for_model(model).recognise(features)
        units = None if model.config.acoustic.decoder_layers else 0
        encoding = outputs.encoding.outputs[..., :units]
        tensors = {"log_probs": outputs.log_probs, "num_frames": outputs.num_frames, "encoding": encoding}
        cascade.restore(session, model, trained.checkpoint)
        acoustic = recogniser.Recogniser(session, features, tensors)
        return [
            {**acoustic.fetch(batch), **{name: batch[name] for name in _TEXTS}}
            for batch in read_batches(source, model.config.input, max_utterances)
        ]


def read_batches(
    source: splits.Split, config: config_lib.InputConfig, max_utterances: int
) -> Iterator[Batch]:
    """Yields the batches of input_fn.read_sample; raises errors.UserError if no utterance is chosen."""
    batch = None
    for batch in input_fn.read_sample(source, config, max_utterances):
        yield batch
    if batch is None:
        raise errors.UserError(
            f"tune: --max_utterances={max_utterances} selects none of the {source.num_utterances} "
            "utterances; set a larger number"
        )


@dataclasses.dataclass(frozen=True)
class Transcribed:
    """An utterance's reference texts, and its outputs from cascade.transcribe."""

    pronunciation: str
    transcript: str
    outputs: dict

    def edits(self, measure: str) -> edit_distance.Edits:
        """Counts token or character edits; `measure` is a key of utterances.MEASURES."""
        texts = self.transcript, self.outputs["transcript"]
        if measure == _TOKENS:
            texts = self.pronunciation, self.outputs["pinyin"]
        return utterances.score(measure, "", "", *texts).edits


def untune(saved: config_lib.DecodeConfig) -> config_lib.DecodeConfig:
    """Returns the saved settings, with default values for all settings that tune chooses."""
    return config_lib.DecodeConfig(
        beam_width=saved.beam_width, candidates=saved.candidates, skipped_blank=saved.skipped_blank
    )


@dataclasses.dataclass(frozen=True)
class Bench:
    """Models and batches on which decoding settings are tried."""

    acoustic: trained_model.TrainedModel
    language: Optional[trained_model.TrainedModel]
    batches: Sequence[Batch]  # result of compute_posteriors

    def untuned(self) -> config_lib.DecodeConfig:
        """Returns the acoustic model's settings, with default values for all settings that tune chooses."""
        return untune(self.acoustic.model.decode)

    def run(self, config: config_lib.DecodeConfig, with_language: bool) -> list[Transcribed]:
        """Decodes all batches with the settings; uses the language model only if with_language is True."""
        language = self.language if with_language else None
        with contextlib.closing(tf.compat.v1.Session(graph=tf.Graph())) as session:
            built = self._build(session, dataclasses.replace(self.acoustic.model, decode=config), language)
            return _transcribe(built, self.batches)

    def _build(self, session, acoustic, language):
        with session.graph.as_default():
            log_probs = tf.compat.v1.placeholder(tf.float32, [None, None, acoustic.num_classes])
            num_frames = tf.compat.v1.placeholder(tf.int32, [None])
            units = self.batches[0]["encoding"].shape[2]
            encoding = tf.compat.v1.placeholder(tf.float32, [None, None, units])
            mask = tf.sequence_mask(num_frames, tf.shape(encoding)[1], tf.float32)
            encoded = encoders.Encoding(encoding, num_frames, mask)
            outputs = acoustic_lib.AcousticOutputs(log_probs, num_frames, None, encoded)
            decoded = tasks.for_model(acoustic).decode(outputs, {})
            transcripts = cascade.write(acoustic, language and language.model, decoded)
            initialize_tables = tf.compat.v1.tables_initializer()
            cascade.restore(session, acoustic, self.acoustic.checkpoint)
            if language:
                cascade.restore(session, language.model, language.checkpoint)
            session.run(initialize_tables)
        inputs = {"log_probs": log_probs, "num_frames": num_frames, "encoding": encoding}
        return recogniser.Recogniser(session, inputs, transcripts)


def count_edits(measure: str, reference: str, hypothesis: str) -> int:
    """Returns the number of edits between a reference and a hypothesis."""
    return utterances.score(measure, "", "", reference, hypothesis).edits.errors


def sum_edits(transcribed: Iterable[Transcribed], measure: str) -> edit_distance.Edits:
    """Returns the total edits over all utterances."""
    edits = [utterance.edits(measure) for utterance in transcribed]
    return edit_distance.Edits(*map(sum, zip(*edits))) if edits else edit_distance.Edits(0, 0, 0, 0)


class Choice(NamedTuple):
    """An utterance's references, and its candidates from cascade.list_candidates."""

    references: dict[str, str]  # reference texts by measure; measures are keys of utterances.MEASURES
    texts: dict[str, list[str]]  # texts of the candidates, by measure
    scores: np.ndarray  # float32 [num_candidates], as are the next two fields
    language_scores: np.ndarray
    whisper_scores: np.ndarray

    def choose(self, language_weight: float, whisper_weight: float) -> int:
        """Returns the index of the candidate that ranking.rank would choose with these weights."""
        scores = self.scores + language_weight * self.language_scores + whisper_weight * self.whisper_scores
        scores = np.where(np.isnan(scores), -np.inf, scores)
        texts = np.array(self.texts[_CHARACTERS])
        totals = {text: np.logaddexp.reduce(scores[texts == text]) for text in set(texts)}
        return int(np.where(texts == max(totals, key=totals.get), scores, -np.inf).argmax())


@dataclasses.dataclass(frozen=True)
class WhisperBench:
    """Models and records on which weights for Whisper's decoder are tried."""

    acoustic: trained_model.TrainedModel
    language: trained_model.TrainedModel
    read: Callable[[], Iterable[Batch]]  # returns the records in batches

    def list_choices(self, config: config_lib.DecodeConfig) -> list[Choice]:
        """Returns each utterance's candidates, which do not depend on the weights to be tuned."""
        acoustic, language = self._with(dataclasses.replace(config, whisper_weight=1.0)).model, self.language
        with tf.Graph().as_default() as graph, contextlib.closing(recogniser.open_session(graph)) as session:
            features = tasks.for_model(acoustic).placeholders()
            hypotheses = proposals.find_hypotheses(acoustic, language.model, **features)
            candidates = cascade.list_candidates(acoustic, language.model, *hypotheses)
            pinyin = tf.reshape(sequences.join(candidates.syllables, "syllable"), tf.shape(candidates.texts))
            scores = (candidates.scores, candidates.language_scores, candidates.whisper_scores)
            outputs = (candidates.texts, pinyin, *scores)
            initialize_tables = tf.compat.v1.tables_initializer()
            cascade.restore(session, acoustic, self.acoustic.checkpoint)
            cascade.restore(session, language.model, language.checkpoint)
            session.run(initialize_tables)
            recognise = recogniser.Recogniser(session, features, dict(enumerate(outputs)))
            batches = self.read()
            return [row for batch in batches for row in _list_choices(batch, recognise.fetch(batch))]

    def run(self, config: config_lib.DecodeConfig) -> list[Transcribed]:
        """Transcribes the records with the settings."""
        built = trained_model.build_recogniser(self._with(config), self.language)
        with contextlib.closing(built.session):
            return _transcribe(built, self.read())

    def _with(self, config):
        return self.acoustic._replace(model=dataclasses.replace(self.acoustic.model, decode=config))


def _list_choices(batch: Batch, outputs: dict[int, np.ndarray]) -> Iterator[Choice]:
    rows = zip(batch["transcript"], batch["pronunciation"], *outputs.values())
    for transcript, pronunciation, hanzi, pinyin, *scores in rows:
        references = {_CHARACTERS: transcript.decode("utf-8"), _TOKENS: pronunciation.decode("utf-8")}
        texts = {_CHARACTERS: hanzi, _TOKENS: pinyin}
        decoded = {measure: [text.decode("utf-8") for text in column] for measure, column in texts.items()}
        yield Choice(references, decoded, *scores)


def _transcribe(built: recogniser.Recogniser, batches: Iterable[Batch]) -> list[Transcribed]:
    return [
        Transcribed(*(record[name].decode("utf-8") for name in _TEXTS), outputs)
        for record, outputs in recogniser.recognise_batches(built, batches)
    ]
