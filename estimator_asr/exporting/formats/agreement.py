"""Whether a format of an export recognises as its SavedModel does, one recording at a time.

The format is run by estimator_asr_runtime.
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
from estimator_asr.saved_model import recogniser
from estimator_asr_runtime import errors as runtime_errors
from estimator_asr_runtime import model as runtime_model
from estimator_asr_runtime import model_json
from estimator_asr_runtime import recogniser as runtime
from tfrecord_builder import errors
from tfrecord_builder.runtime import lazy_tensorflow
from tfrecord_builder.settings import progress_bar
from tfrecord_builder.storage import files

FILE = os.path.join("assets.extra", "parity_{}.json")
EXACT = "float32"
TOLERANCE = 1e-3  # of scores, times and confidences, relative to their size where that is above 1
MOST_CHANGED = 0.01  # fraction of characters that rounded weights may write otherwise
_ADVICE = "nothing was exported: leave {0} out of --format, and report it with the versions of its libraries"


@dataclasses.dataclass
class Agreement:
    """What was compared; content of parity_FORMAT.json."""

    format: str
    weights: str
    num_recordings: int = 0
    num_characters: int = 0
    num_changed: int = 0  # edits to the SavedModel's transcripts; 0 for float32
    num_ties: Optional[int] = None  # this and the next one are of float32
    largest_difference: Optional[float] = None  # of scores, times and confidences
    sha256: str = ""  # of the format's model.json, which has those of its files

    def __str__(self) -> str:
        count = f"{self.format}, {self.weights}: {self.num_recordings} recordings"
        if self.weights == EXACT:
            return f"{count} as the SavedModel does, scores within {self.largest_difference:.1e}"
        changed = f"{self.num_changed} of {self.num_characters} characters"
        return f"{count}, {changed} otherwise than the SavedModel, which has {EXACT}"

    def save(self, version_dir: str) -> None:
        path = os.path.join(version_dir, FILE.format(self.format))
        files.write_text(path, json.dumps(dataclasses.asdict(self), indent=2) + "\n")


def compare(version_dir: str, name: str, weights: str, utterances: Sequence[sample.Utterance]) -> Agreement:
    """Compares VERSION/name with the SavedModel of the version.

    Raises:
        errors.UserError: it recognises otherwise: with float32 any character or score, with rounded weights
            more than MOST_CHANGED of the characters.
    """
    digest = files.sha256(os.path.join(version_dir, name, model_json.FILE))
    agreement, version = Agreement(name, weights, sha256=digest), recogniser.load_version(version_dir)
    # A hypothesis that is just within the beam in one format, and not in the other, is seldom the best.
    certificate = parity.Certificate(0, 0, tolerance=TOLERANCE, rank_tolerance=TOLERANCE, num_best=1)
    with contextlib.closing(version.session), _as_user_errors(name):
        other = runtime.Recogniser(runtime_model.load(os.path.join(version_dir, name), num_threads=1))
        model = version.find("waveform")
        with lazy_tensorflow.without_standard_error():  # LiteRT prints a line at its first run
            other.recognise(utterances[0].waveform)
        for each in progress_bar.ProgressBar(utterances, desc=f"compare {name}", unit="recording"):
            expected, got = _recognise(model, each.waveform), other.recognise(each.waveform)
            where = f"export: {each.utterance_id} in {name}"
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
        raise errors.UserError(f"export: {error}; {_ADVICE.format(name)}") from error
    except errors.UserError:  # they differ
        raise
    except (LookupError, ValueError) as error:  # outputs with other names or shapes
        problem = f"{name} has other outputs than the SavedModel ({type(error).__name__}: {error})"
        raise errors.UserError(f"export: {problem}; {_ADVICE.format(name)}") from error


def _recognise(model: recogniser.Recogniser, waveform: np.ndarray) -> dict:
    outputs = model.run({"waveform": waveform[None], "num_samples": np.int32([len(waveform)])})
    return {name: values[0] for name, values in outputs.items()}


def _add(agreement: Agreement, expected: Mapping, got: Mapping) -> None:
    agreement.num_recordings += 1
    agreement.num_characters += len(expected["transcript"])
    agreement.num_changed += Levenshtein.distance(expected["transcript"], got["transcript"])


def _check_changes(agreement: Agreement) -> None:
    expected = MOST_CHANGED * agreement.num_characters
    most = expected + 2 * math.sqrt(expected)  # two standard deviations: a few characters say little
    if agreement.weights != EXACT and agreement.num_changed > most:
        raise errors.UserError(
            f"export: {agreement}, expected at most {MOST_CHANGED:.0%}, or {math.floor(most)}; nothing was "
            "exported: pass other --weights"
        )
