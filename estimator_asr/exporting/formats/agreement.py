"""Checks that an export converted to another format recognises recordings as its SavedModel does.

estimator_asr_runtime runs the converted export.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

import numpy as np
from rapidfuzz.distance import Levenshtein

from estimator_asr.exporting import parity, sample
from estimator_asr.exporting.saved_model import recogniser
from estimator_asr_runtime import errors as runtime_errors
from estimator_asr_runtime import model as runtime_model
from estimator_asr_runtime import model_json
from estimator_asr_runtime import recogniser as runtime
from tfrecord_builder import errors
from tfrecord_builder.program import lazy_tensorflow, progress_bar
from tfrecord_builder.storage import files

FILE = os.path.join("assets.extra", "parity_{}.json")
EXACT = "float32"
TOLERANCE = 1e-3  # allowed difference between scores, times or confidences; relative for values above 1
MOST_CHANGED = 0.01  # fraction of characters that rounded weights may change
_ADVICE = (
    "Nothing was exported. Leave {0} out of --format, and report this with the versions of its libraries."
)


@dataclasses.dataclass
class Agreement:
    """Result of comparing a format with the SavedModel; saved as parity_FORMAT.json."""

    format: str
    weights: str
    num_recordings: int = 0
    num_characters: int = 0
    num_changed: int = 0  # character edits between the two transcripts; for float32, only ties have any
    num_ties: Optional[int] = None  # recordings whose texts differ but have equal scores; float32 only
    largest_difference: Optional[float] = None  # maximum over scores, times and confidences; float32 only
    sha256: str = ""  # digest of the format's model.json, which lists the digests of the other files

    def __str__(self) -> str:
        if self.weights == EXACT:
            agreed = f"{self.format} agrees with the SavedModel in {self.num_recordings} recordings"
            return f"{agreed}; scores differ by {self.largest_difference:.1e} at most"
        changed = f"{self.num_changed} of {self.num_characters} characters ({self.num_recordings} recordings)"
        return f"{self.weights} {self.format} differs from the {EXACT} SavedModel in {changed}"

    def save(self, version_dir: str) -> None:
        path = os.path.join(version_dir, FILE.format(self.format))
        files.write_text(path, json.dumps(dataclasses.asdict(self), indent=2) + "\n")


def compare(
    version_dir: str, name: str, weights: str, utterances: Sequence[sample.ParityUtterance]
) -> Agreement:
    """Compares the converted export in VERSION/name with the version's SavedModel.

    Raises:
        errors.UserError: the outputs differ: for float32, in any character or score; for rounded weights, in
            significantly more than MOST_CHANGED of the characters.
    """
    digest = files.sha256(os.path.join(version_dir, name, model_json.FILE))
    agreement, version = Agreement(name, weights, sha256=digest), recogniser.load_version(version_dir)
    # Only the best hypothesis is compared: near the edge of the beam, the formats may keep different ones.
    certificate = parity.Certificate(0, 0, tolerance=TOLERANCE, rank_tolerance=TOLERANCE, num_best=1)
    with contextlib.closing(version.session), _as_user_errors(name):
        other = runtime.Recogniser(runtime_model.load(os.path.join(version_dir, name), num_threads=1))
        model = version.find("waveform")
        with lazy_tensorflow.without_standard_error():  # LiteRT prints a line when it first runs
            other.recognise(utterances[0].waveform)
        for utterance in progress_bar.ProgressBar(utterances, desc=f"compare {name}", unit="recording"):
            waveform = utterance.waveform
            expected, got = _recognise(model, waveform), other.recognise(waveform)
            where = f"export: {utterance.utterance_id} in {name}"
            _add(agreement, expected, got)
            if weights == EXACT:
                certificate.compare(where, expected, got, _ADVICE.format(name))
    if weights == EXACT:
        agreement.num_ties, agreement.largest_difference = (
            certificate.num_ties,
            certificate.largest_difference,
        )
    _check_changes(agreement)
    return agreement


@contextlib.contextmanager
def _as_user_errors(name: str) -> Iterator[None]:
    try:
        yield
    except runtime_errors.UserError as error:
        raise errors.UserError(f"export: {error}. {_ADVICE.format(name)}") from error
    except errors.UserError:  # the outputs differ
        raise
    except (LookupError, ValueError) as error:  # the outputs have other names or shapes
        problem = f"{name} has other outputs than the SavedModel ({type(error).__name__}: {error})"
        raise errors.UserError(f"export: {problem}. {_ADVICE.format(name)}") from error


def _recognise(model: recogniser.Recogniser, waveform: np.ndarray) -> dict:
    outputs = model.run({"waveform": waveform[None], "num_samples": np.int32([len(waveform)])})
    return {name: values[0] for name, values in outputs.items()}


def _add(agreement: Agreement, expected: Mapping, got: Mapping) -> None:
    agreement.num_recordings += 1
    agreement.num_characters += len(expected["transcript"])
    agreement.num_changed += Levenshtein.distance(expected["transcript"], got["transcript"])


def _check_changes(agreement: Agreement) -> None:
    allowed = MOST_CHANGED * agreement.num_characters
    limit = allowed + 2 * math.sqrt(allowed)  # two standard deviations more, as small samples vary by chance
    if agreement.weights != EXACT and agreement.num_changed > limit:
        raise errors.UserError(
            f"export: {agreement}; at most {math.floor(limit)} may differ. Nothing was exported. Pass other "
            "--weights, or train the model further."
        )
