"""The parity certificate: an export, loaded again, returns what the models of the checkpoints return.

The reference is the graph that the checkpoints were restored into, one utterance at a time and without
padding. The export gets the same utterances in batches of several sizes: stored features with several
paddings, whose values must not matter, and their recordings as WAV files.
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

from estimator_asr.serving import recogniser
from tfrecord_builder import errors

FILE = os.path.join("assets.extra", "parity.json")
TOLERANCE = 1e-4  # of scores, relative to their size where that is above 1
BATCH_SIZES = (1, 3, 8)
PADDINGS = (0, 17)  # frames behind the longest utterance of a batch
_ADVICE = "nothing was exported: the SavedModel is wrong; report it with the version of TensorFlow"
_TEXTS = ("transcript", "pinyin")
_SCORES = ("acoustic_score", "language_score", "confidence")


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
    num_ties: int = 0  # other texts, whose scores are equal within the tolerance
    largest_difference: float = 0.0  # of scores
    tolerance: float = TOLERANCE
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    paddings: tuple[int, ...] = PADDINGS
    data: str = ""  # data directories and split

    def save(self, version_dir: str) -> None:
        with open(os.path.join(version_dir, FILE), "w", encoding="utf-8") as file:
            json.dump(dataclasses.asdict(self), file, indent=2)
            file.write("\n")

    def compare(self, where: str, expected: Mapping, found: Mapping) -> None:
        """Counts one utterance; raises UserError if it differs."""
        difference = float(np.max(list(_differences(expected, found))))  # NaN if one of them is
        if not difference <= self.tolerance:
            raise errors.UserError(
                f"{where}: scores differ from those of the checkpoints by {difference:.1e} of their size, "
                f"expected at most {self.tolerance:g}; {_ADVICE}"
            )
        self.largest_difference = max(self.largest_difference, difference)
        for name in _TEXTS:
            if found[name] != expected[name]:
                if not _is_tie(expected, self.tolerance):
                    raise errors.UserError(
                        f"{where}: {name} is {found[name]!r}, expected {expected[name]!r} as by the "
                        f"checkpoints; {_ADVICE}"
                    )
                self.num_ties += 1
                break


def certify(
    version_dir: str,
    references: Mapping[str, recogniser.Recogniser],
    utterances: Sequence[Utterance],
    sample_rate: int,
) -> Certificate:
    """Compares an export with its models.

    Args:
        version_dir: the export.
        references: the models before they are saved, for the signatures "features" and "waveform".
        utterances: at least one.
        sample_rate: of the waveforms in Hz.

    Raises:
        errors.UserError: an utterance differs.
    """
    spoken = [each for each in utterances if each.waveform is not None]
    certificate = Certificate(len(utterances), len(spoken))
    inputs = [{"fbank": each.fbank[None], "num_frames": [len(each.fbank)]} for each in utterances]
    expected = [references["features"].run(each) for each in inputs]
    batches = (batch for padding in PADDINGS for batch in _batch_features(utterances, padding))
    _compare(certificate, version_dir, "features", expected, batches)
    inputs = [{"waveform": each.waveform[None], "num_samples": [len(each.waveform)]} for each in spoken]
    expected = [references["waveform"].run(each) for each in inputs]
    _compare(certificate, version_dir, "serving_default", expected, _batch_files(spoken, sample_rate))
    return certificate


def _compare(certificate, version_dir, signature, expected, batches) -> None:
    """Runs batches, which are pairs of the utterances' numbers with names and the inputs."""
    loaded = recogniser.load(version_dir, signature)
    for rows, names, batch in batches:
        found = loaded.run(batch)
        for i, row in enumerate(rows):
            where = f"export: {names[i]} in {signature}, batch of {len(rows)}"
            one = {name: value[0] for name, value in expected[row].items()}
            certificate.compare(where, one, {name: value[i] for name, value in found.items()})
        certificate.comparisons[signature] = certificate.comparisons.get(signature, 0) + len(rows)
    loaded.session.close()


def _batch_features(utterances: Sequence[Utterance], padding: int) -> Iterator[tuple]:
    for rows in _rows(len(utterances)):
        chosen = [utterances[row].fbank for row in rows]
        lengths = [len(each) for each in chosen]
        # NaN behind the ends: what is there must not be looked at.
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


def _differences(expected: Mapping, found: Mapping) -> Iterator[float]:
    """Yields the differences of the scores of an utterance, those of its hypotheses included."""
    pairs = [(expected[name], found[name]) for name in _SCORES]
    pairs += [(a["score"], b["score"]) for a, b in zip(expected["n_best"], found["n_best"])]
    for want, got in pairs:
        yield abs(got - want) / max(1.0, abs(want))


def _is_tie(expected: Mapping, tolerance: float) -> bool:
    """Returns whether the second hypothesis is as good as the best."""
    scores = [each["score"] for each in expected["n_best"][:2]]
    return len(scores) == 2 and scores[0] - scores[1] <= tolerance * max(1.0, abs(scores[0]))
