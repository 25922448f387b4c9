"""Checks that a converted export, run by estimator_asr_runtime, gives the same results as its SavedModel."""

from __future__ import annotations

import contextlib
import dataclasses
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
from estimator_asr_runtime import recogniser as runtime
from tfrecord_builder import errors
from tfrecord_builder.program import lazy_tensorflow, progress_bar

EXACT = "float32"
TOLERANCE = 1e-3  # allowed difference between scores, times or confidences; relative for values above 1
# Maximum fraction of characters, and of marks after them, that may differ with float16 or int8 weights.
MOST_CHANGED = 0.01
_ADVICE = "Nothing was exported. Omit {0} from --format, and report this error with {0}'s library versions."


@dataclasses.dataclass
class Agreement:
    """Result of comparing a format with the SavedModel; saved in export.json."""

    format: str
    weights: str
    num_recordings: int = 0
    num_characters: int = 0
    num_changed: int = 0  # character edits between the transcripts; for float32, only in ties (see num_ties)
    num_ties: Optional[int] = None  # recordings for which two different texts have equal scores; float32 only
    largest_difference: Optional[float] = None  # difference in a score, time or confidence; float32 only
    num_changed_marks: Optional[int] = None  # characters whose marks differ; None without a punctuation model

    def __str__(self) -> str:
        if self.weights == EXACT:
            agreed = f"{self.format} agrees with the SavedModel on {self.num_recordings} recordings"
            return f"{agreed}; scores differ by at most {self.largest_difference:.1e}"
        changed = f"{self.num_changed} of {self.num_characters} characters ({self.num_recordings} recordings)"
        if self.num_changed_marks is not None:
            changed += f" and in the marks after {self.num_changed_marks} characters"
        return f"{self.weights} {self.format} differs from the {EXACT} SavedModel in {changed}"

    def count(self, expected: Mapping, got: Mapping) -> None:
        """Adds a recording's results: `expected` is from the SavedModel, `got` from the format."""
        self.num_recordings += 1
        self.num_characters += len(expected["transcript"])
        self.num_changed += Levenshtein.distance(expected["transcript"], got["transcript"])
        if "punctuated" in expected:
            changed = count_changed_marks(expected["characters"], got["characters"])
            self.num_changed_marks = (self.num_changed_marks or 0) + changed

    def check_changes(self) -> None:
        """Raises errors.UserError if rounding changes too many characters or marks (see MOST_CHANGED)."""
        allowed = MOST_CHANGED * self.num_characters
        limit = allowed + 2 * math.sqrt(allowed)  # the mean plus two standard deviations (Poisson)
        if self.weights != EXACT and max(self.num_changed, self.num_changed_marks or 0) > limit:
            raise errors.UserError(
                f"export: {self}; at most {math.floor(limit)} may differ. Nothing was exported. Pass other "
                "--weights, or train the model further."
            )


def count_changed_marks(expected: Sequence[Mapping], got: Sequence[Mapping]) -> int:
    """Returns how many characters occur in both results but are followed by different marks.

    The arguments are the results' `characters`. They are aligned first, so that added or missing characters
    do not count as changed marks.
    """
    texts = ([item["character"] for item in side] for side in (expected, got))
    return sum(
        expected[block.a + i]["mark"] != got[block.b + i]["mark"]
        for block in Levenshtein.opcodes(*texts).as_matching_blocks()
        for i in range(block.size)
    )


def compare(
    version_dir: str, name: str, weights: str, utterances: Sequence[sample.ParityUtterance]
) -> Agreement:
    """Compares the converted export in VERSION/name with the version's SavedModel.

    Raises errors.UserError if float32 outputs differ by more than a tie or TOLERANCE, or if, with rounded
    weights, significantly more than MOST_CHANGED of the characters or of their marks differ.
    """
    agreement, version = Agreement(name, weights), recogniser.load_version(version_dir)
    # Only the best hypothesis is compared, because the last ones in the beam may differ between formats.
    certificate = parity.Certificate(0, 0, tolerance=TOLERANCE, rank_tolerance=TOLERANCE, num_best=1)
    with contextlib.closing(version.session), _as_user_errors(name):
        other = runtime.Recogniser(runtime_model.load(os.path.join(version_dir, name), num_threads=1))
        model = version.find("waveform")
        with lazy_tensorflow.without_standard_error():  # LiteRT prints a line when it first runs
            other.recognise(utterances[0].waveform)
        for utterance in progress_bar.ProgressBar(utterances, desc=f"compare {name}", unit="recording"):
            waveform = utterance.waveform
            batch = {"waveform": waveform[None], "num_samples": np.int32([len(waveform)])}
            expected = {name: values[0] for name, values in model.run(batch).items()}
            got = other.recognise(waveform)
            agreement.count(expected, got)
            if weights == EXACT:
                where = f"export: utterance {utterance.utterance_id} in {name}"
                certificate.compare(where, expected, got, _ADVICE.format(name))
    if weights == EXACT:
        agreement.num_ties = certificate.num_ties
        agreement.largest_difference = certificate.largest_difference
    agreement.check_changes()
    return agreement


@contextlib.contextmanager
def _as_user_errors(name: str) -> Iterator[None]:
    try:
        yield
    except runtime_errors.UserError as error:
        raise errors.UserError(f"export: {error}. {_ADVICE.format(name)}") from error
    except errors.UserError:  # the outputs differ
        raise
    except (LookupError, ValueError) as error:  # the outputs have different names or shapes
        problem = f"the outputs of {name} do not match the SavedModel's ({type(error).__name__}: {error})"
        raise errors.UserError(f"export: {problem}. {_ADVICE.format(name)}") from error
