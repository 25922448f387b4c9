"""The parity certificate: an export, loaded again, returns what the models of the checkpoints return.

The export gets utterances in batches of several sizes: stored features with several paddings, which are NaN,
and their recordings as WAV files. The reference is that of reference.py; confidences and times, which it
lacks, must not depend on the batch.
"""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

import numpy as np
import soundfile

from estimator_asr.saved_model import recogniser, statuses
from tfrecord_builder import errors

FILE = os.path.join("assets.extra", "parity.json")
TOLERANCE = 1e-4  # of scores and times, relative to their size where that is above 1
BATCH_SIZES = (1, 3, 8)
PADDINGS = (0, 17)  # frames after the longest utterance of a batch
_ADVICE = "nothing was exported: the SavedModel is wrong; report it with the version of TensorFlow"
_SCORES = ("acoustic_score", "language_score")
_OF_CHARACTERS = ("start", "end", "confidence")


@dataclasses.dataclass(frozen=True)
class Utterance:
    """An utterance to compare; waveform is None where the recording is not at hand."""

    utterance_id: str
    fbank: np.ndarray  # float32 [num_frames, num_bins], as stored
    waveform: Optional[np.ndarray]  # float32 [num_samples], at the sample rate of the model


@dataclasses.dataclass
class Certificate:
    """What was compared; content of parity.json."""

    num_utterances: int
    num_recordings: int
    comparisons: dict[str, int] = dataclasses.field(default_factory=dict)  # utterances by signature
    num_ties: int = 0  # another text, whose score is equal within the tolerance
    largest_difference: float = 0.0  # of scores and times
    tolerance: float = TOLERANCE
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    paddings: tuple[int, ...] = PADDINGS
    data: str = ""  # data directories and split

    def save(self, version_dir: str) -> None:
        with open(os.path.join(version_dir, FILE), "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(self), file, indent=2)
            file.write("\n")

    def compare(self, where: str, expected: Mapping, found: Mapping) -> None:
        """Counts one utterance; raises UserError if it differs from what the models give."""
        if found["status"] != statuses.OK:
            raise errors.UserError(f"{where}: status is {found['status']}, expected ok; {_ADVICE}")
        if not expected:  # see reference.recognise
            return
        if self._is_tie(expected, found):
            self.num_ties += 1
            return
        for name in ("transcript", "pinyin"):
            if found[name] != expected[name]:
                raise errors.UserError(
                    f"{where}: {name} is {found[name]!r}, expected {expected[name]!r}, as the models give; "
                    f"{_ADVICE}"
                )
        self._check(where, [(expected[name], found[name]) for name in _SCORES])
        self._check(where, _pair_hypotheses(expected["n_best"], found["n_best"]))

    def compare_batches(self, where: str, alone: Mapping, found: Mapping) -> None:
        """Compares an utterance in a batch with the same one alone; raises UserError if they differ."""
        if [each["character"] for each in alone["characters"]] != [
            each["character"] for each in found["characters"]
        ]:
            return  # a tie, or refused by `compare`
        pairs = [(alone["confidence"], found["confidence"])]
        for one, other in zip(alone["characters"], found["characters"]):
            pairs += [(one[name], other[name]) for name in _OF_CHARACTERS]
        self._check(where, pairs)

    def _is_tie(self, expected: Mapping, found: Mapping) -> bool:
        """Returns whether another text than the best was chosen, whose score is as good."""
        if found["transcript"] == expected["transcript"]:
            return False
        scores = {each["transcript"]: each["score"] for each in expected["n_best"]}
        score, best = scores.get(found["transcript"], -np.inf), scores[expected["transcript"]]
        return _difference(best, score) <= self.tolerance

    def _check(self, where: str, pairs: Sequence[tuple[float, float]]) -> None:
        difference = max((_difference(*pair) for pair in pairs), default=0.0)
        if difference > self.tolerance:
            raise errors.UserError(
                f"{where}: scores or times differ by {difference:.1e} of their size, expected at most "
                f"{self.tolerance:g}; {_ADVICE}"
            )
        self.largest_difference = max(self.largest_difference, difference)


def _difference(expected: float, found: float) -> float:
    """Returns the difference of two numbers relative to their size; infinity for NaN."""
    difference = abs(found - expected) / max(1.0, abs(expected))
    return difference if difference == difference else np.inf


def _pair_hypotheses(expected: Sequence[Mapping], found: Sequence[Mapping]) -> list[tuple[float, float]]:
    """Returns the scores of the same texts; a text that one of them lacks must be as bad as its last one."""
    scores, others = ({each["transcript"]: each["score"] for each in side} for side in (expected, found))
    pairs = [(score, others.get(text, found[-1]["score"])) for text, score in scores.items()]
    return pairs + [(expected[-1]["score"], score) for text, score in others.items() if text not in scores]


def certify(
    version_dir: str,
    expected: Mapping[str, Sequence[Mapping]],
    utterances: Sequence[Utterance],
    sample_rate: int,
) -> Certificate:
    """Compares an export with its models.

    Args:
        version_dir: the export.
        expected: what the models give, reference.recognise's outputs: "features" of each utterance,
            "serving_default" of each that has a waveform.
        utterances: at least one.
        sample_rate: of the waveforms in Hz.

    Raises:
        errors.UserError: an utterance differs.
    """
    spoken = [each for each in utterances if each.waveform is not None]
    certificate = Certificate(len(utterances), len(spoken))
    batches = (batch for padding in PADDINGS for batch in _batch_features(utterances, padding))
    _compare(certificate, version_dir, "features", expected["features"], batches)
    files = _batch_files(spoken, sample_rate)
    _compare(certificate, version_dir, "serving_default", expected["serving_default"], files)
    return certificate


def _compare(certificate, version_dir, signature, expected, batches) -> None:
    """Runs batches, which are pairs of the utterances' numbers with names and the inputs."""
    loaded, alone = recogniser.load(version_dir, signature), {}
    for rows, names, batch in batches:
        found = loaded.run(batch)
        for i, row in enumerate(rows):
            where = f"export: {names[i]} in {signature}, batch of {len(rows)}"
            one = {name: value[i] for name, value in found.items()}
            certificate.compare(where, expected[row], one)
            certificate.compare_batches(where, alone.setdefault(row, one), one)
        certificate.comparisons[signature] = certificate.comparisons.get(signature, 0) + len(rows)
    loaded.session.close()


def _batch_features(utterances: Sequence[Utterance], padding: int) -> Iterator[tuple]:
    for rows in _rows(len(utterances)):
        chosen = [utterances[row].fbank for row in rows]
        lengths = [len(each) for each in chosen]
        batch = np.full([len(rows), max(lengths) + padding, chosen[0].shape[1]], np.nan, np.float32)
        for place, fbank in zip(batch, chosen):
            place[: len(fbank)] = fbank
        yield rows, [utterances[row].utterance_id for row in rows], {"fbank": batch, "num_frames": lengths}


def _batch_files(utterances: Sequence[Utterance], sample_rate: int) -> Iterator[tuple]:
    encoded = [_encode(each.waveform, sample_rate) for each in utterances]
    for rows in _rows(len(utterances)):
        names = [utterances[row].utterance_id for row in rows]
        yield rows, names, {"wav_bytes": np.array([encoded[row] for row in rows], object)}


def _rows(count: int) -> Iterator[list[int]]:
    """Yields the numbers of the utterances of each batch, all utterances in each batch size."""
    for size in BATCH_SIZES:
        for begin in range(0, count, size):
            yield list(range(begin, min(begin + size, count)))


def _encode(waveform: np.ndarray, sample_rate: int) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, waveform, sample_rate, "FLOAT", format="WAV")
    return file.getvalue()
