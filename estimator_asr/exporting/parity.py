"""The parity certificate: evidence that a loaded export returns the same outputs as the trained models.

The models run from their checkpoints, one utterance at a time. The export reads the same utterances in
batches of several sizes: first as stored features, followed by NaN padding of several lengths, then as WAV
files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import model_directory
from estimator_asr.exporting import sample
from estimator_asr.exporting.saved_model import recogniser, statuses, stream_client, trained_model
from estimator_asr.models import frozen_encoder
from estimator_asr.pretrained import encoder_weights
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, frontend

TOLERANCE = 1e-4  # allowed difference between scores or times; relative for values above 1
ENCODER_TOLERANCE = 1e-3  # a frozen encoder outputs float16, whose last bit may be rounded differently
BATCH_SIZES = (1, 3, 8)
PADDINGS = (0, 17)  # padding frames after the longest utterance in a batch
_PIECE_FRAMES = 23  # feature frames in each piece of a stream
_ADVICE = (
    "Nothing was exported, because the SavedModel is wrong. Report this error with your TensorFlow version."
)
_SCORES = ("acoustic_score", "language_score", "confidence")
_CHARACTER_FIELDS = ("start", "end", "confidence")


@dataclasses.dataclass
class Certificate:
    """Result of comparing an export with its models; saved in export.json."""

    num_utterances: int
    num_recordings: int
    comparisons: dict[str, int] = dataclasses.field(default_factory=dict)  # comparison counts by signature
    num_ties: int = 0  # comparisons in which two different texts have equal scores (within the tolerance)
    largest_difference: float = 0.0  # largest difference between scores or times
    tolerance: float = TOLERANCE
    rank_tolerance: float = TOLERANCE  # tolerance for n-best scores
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    paddings: tuple[int, ...] = PADDINGS
    # Number of n-best scores to compare; None means all. With Whisper's decoder it is 1, because models and
    # export may then list different hypotheses with equal scores.
    num_best: Optional[int] = None
    data: str = ""  # data directories and split that the utterances come from

    def __str__(self) -> str:
        return (
            f"The SavedModel agrees with the trained models on {self.num_utterances} utterances "
            f"({self.num_recordings} as WAV files); scores differ by at most {self.largest_difference:.1e}."
        )

    def compare(self, where: str, expected: Mapping, got: Mapping, advice: str = _ADVICE) -> None:
        """Compares one utterance's outputs; if they differ, raises a UserError that ends with `advice`."""
        if got["status"] != statuses.OK:
            raise errors.UserError(f"{where}: status is {got['status']}, expected ok. {advice}")
        if self._is_tie(expected, got):
            self.num_ties += 1
            return
        for name in ("transcript", "pinyin", "punctuated"):
            if got.get(name) != expected.get(name):
                raise errors.UserError(
                    f"{where}: {name} is {got.get(name)!r}, expected {expected.get(name)!r}. {advice}"
                )
        pairs = [(expected[name], got[name]) for name in _SCORES]
        for one, other in zip(expected["characters"], got["characters"]):
            pairs += [(one[name], other[name]) for name in _CHARACTER_FIELDS]
        # Scores are compared by rank, because texts with equal scores may swap places or fall off the end.
        scores = ([text["score"] for text in side["n_best"][: self.num_best]] for side in (expected, got))
        ranks = list(itertools.zip_longest(*scores, fillvalue=np.nan))
        for compared, tolerance in ((pairs, self.tolerance), (ranks, self.rank_tolerance)):
            difference = max(_difference(*pair) for pair in compared)
            if difference > tolerance:
                raise errors.UserError(
                    f"{where}: scores or times differ by {difference:.1e}, more than the tolerance of "
                    f"{tolerance:g} (relative for values above 1). {advice}"
                )
            self.largest_difference = max(self.largest_difference, difference)

    def _is_tie(self, expected: Mapping, got: Mapping) -> bool:
        """Returns True if the export chose a different text whose score is equal within the tolerance."""
        if got["transcript"] == expected["transcript"]:
            return False
        scores = {text["transcript"]: text["score"] for text in expected["n_best"]}
        score, best = scores.get(got["transcript"], -np.inf), scores[expected["transcript"]]
        return _difference(best, score) <= self.rank_tolerance


def _difference(expected: float, got: float) -> float:
    """Returns |got - expected|, divided by |expected| if that exceeds 1; infinity if a value is NaN."""
    difference = abs(got - expected) / max(1.0, abs(expected))
    return difference if difference == difference else np.inf


def certify(
    version_dir: str,
    acoustic: trained_model.TrainedModel,
    language: Optional[trained_model.TrainedModel],
    utterances: Sequence[sample.ParityUtterance],
    punctuation: Optional[trained_model.TrainedModel] = None,
) -> Certificate:
    """Compares an export with the models from which it was made.

    Raises errors.UserError if the outputs for an utterance differ.
    """
    with_audio = [utterance for utterance in utterances if utterance.waveform is not None]
    fbanks = extract_features(acoustic.model, [utterance.waveform for utterance in with_audio])
    model = trained_model.build_recogniser(acoustic, language, punctuation)
    with contextlib.closing(model.session):
        stored = list(zip(utterances, _recognise_each(model, [utterance.fbank for utterance in utterances])))
        recorded = list(zip(with_audio, _recognise_each(model, fbanks)))
    weight = acoustic.model.decode.whisper_weight
    num_best = 1 if weight else None
    # N-best scores include whisper_weight times a score from Whisper's decoder, which has the same tolerance.
    tolerance = ENCODER_TOLERANCE if acoustic.model.config.frontend.encoder else TOLERANCE
    options = {"num_best": num_best, "tolerance": tolerance, "rank_tolerance": tolerance * (1 + weight)}
    certificate = Certificate(len(utterances), len(with_audio), **options)
    version = recogniser.load_version(version_dir)
    with contextlib.closing(version.session):
        for signature, cases in (("features", stored), ("serving_default", recorded)):
            for size in BATCH_SIZES:
                for begin in range(0, len(cases), size):
                    _compare_batch(certificate, version, signature, cases[begin : begin + size])
        if version.info.chunk_frames:
            _compare_streams(certificate, version, acoustic, language, utterances)
    return certificate


def _compare_streams(certificate, version, acoustic, language, utterances):
    """Compares the export, which reads features in pieces, with the models, which read them all at once."""
    model, reference = trained_model.build_streams(acoustic, language)
    name, config = "stream_features", version.info.frontend
    streams = stream_client.find(version, name)
    max_frames = frontend.num_frames(statuses.STREAM_SECONDS * config.sample_rate, config)
    compared = [utterance for utterance in utterances if len(utterance.fbank) <= max_frames]
    with contextlib.closing(model.session):
        for begin in range(0, len(compared), max(BATCH_SIZES)):
            batch = compared[begin : begin + max(BATCH_SIZES)]
            features = _stack_features([utterance.fbank for utterance in batch], padding=0)
            got = _run_stream(streams, features, _PIECE_FRAMES)
            for i, utterance in enumerate(batch):
                expected = _run_stream(
                    reference, _stack_features([utterance.fbank], padding=0), len(utterance.fbank)
                )
                where = (
                    f"export: utterance {utterance.utterance_id} in {name}, pieces of {_PIECE_FRAMES} frames"
                )
                certificate.compare(where, _take_row(expected, 0), _take_row(got, i))
    certificate.comparisons[name] = len(compared)


def _take_row(outputs: Mapping[str, list], row: int) -> dict:
    return {name: values[row] for name, values in outputs.items()}


def _run_stream(streams: stream_client.StreamClient, batch: Mapping, size: int) -> dict[str, list]:
    state = streams.start(len(batch["num_frames"]))
    for piece in stream_client.cut(batch, ("fbank", "num_frames"), size):
        outputs, state = streams.feed(state, piece)
    return outputs


def _recognise_each(model: recogniser.Recogniser, fbanks: Sequence[np.ndarray]) -> list[Mapping]:
    batches = ({"fbank": fbank[None], "num_frames": np.int32([len(fbank)])} for fbank in fbanks)
    return [outputs for _, outputs in recogniser.recognise_batches(model, batches)]


def _compare_batch(certificate: Certificate, version: recogniser.LoadedVersion, signature: str, cases):
    """Compares a batch of cases; a case is a pair of an utterance and the models' outputs for it."""
    if signature == "features":
        fbanks = [utterance.fbank for utterance, _ in cases]
        batches = [_stack_features(fbanks, padding) for padding in PADDINGS]
    else:
        rate = version.info.frontend.sample_rate
        wavs = [audio_files.encode_wav(utterance.waveform, rate, "FLOAT") for utterance, _ in cases]
        batches = [{"wav_bytes": np.array(wavs, object)}]
    model = version.find(signature)
    for batch in batches:
        for (utterance, expected), (_, outputs) in zip(cases, recogniser.recognise_batches(model, [batch])):
            where = f"export: utterance {utterance.utterance_id} in {signature}, batch of {len(cases)}"
            certificate.compare(where, expected, outputs)
        certificate.comparisons[signature] = certificate.comparisons.get(signature, 0) + len(cases)


def _stack_features(fbanks: Sequence[np.ndarray], padding: int) -> dict[str, np.ndarray]:
    lengths = np.int32([len(fbank) for fbank in fbanks])
    stacked = np.full([len(fbanks), max(lengths) + padding, fbanks[0].shape[1]], np.nan, np.float32)
    for row, fbank in zip(stacked, fbanks):
        row[: len(fbank)] = fbank
    return {"fbank": stacked, "num_frames": lengths}


def extract_features(
    model: model_directory.ModelDirectory, waveforms: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """Extracts features from waveforms, float32 [num_samples], as the builder does.

    If the model has a frozen encoder, it is applied as in `encode`.

    Returns:
        Features of each waveform, float32 [num_frames, num_bins].
    """
    config = model.config.frontend
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        waveform = tf.compat.v1.placeholder(tf.float32, [None])
        fbank = frontend.extract(waveform, config)[None]
        if config.encoder:
            fbank, _ = frozen_encoder.build(config.encoder, fbank, tf.shape(fbank)[1:2])
            encoder_weights.load(session, model.path, config.encoder.encoder)
        fbank = tf.cast(fbank[0], tf.float32)
        return [session.run(fbank, {waveform: samples}) for samples in waveforms]
