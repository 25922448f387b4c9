"""Lists the tested TensorFlow releases and their Python versions, without importing TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Optional

from tfrecord_builder import errors


@dataclasses.dataclass(frozen=True)
class Release:
    """A tested minor release of TensorFlow."""

    version: str  # MAJOR.MINOR
    first_python: tuple[int, int]
    last_python: tuple[int, int]
    tensorflow_io: Optional[str] = None  # MAJOR.MINOR of the compatible TensorFlow I/O release

    def __str__(self) -> str:
        first, last = (".".join(map(str, python)) for python in (self.first_python, self.last_python))
        return f"{self.version} (Python {first} to {last})"


RELEASES = (Release("2.15", (3, 10), (3, 11), tensorflow_io="0.36"), Release("2.21", (3, 12), (3, 13)))


def find(version: str) -> Optional[Release]:
    """Returns the tested release to which a version such as "2.15.1" belongs; None if there is none."""
    minor = ".".join(version.split(".")[:2])
    return next((release for release in RELEASES if release.version == minor), None)


def for_python(version: Sequence[int]) -> Optional[Release]:
    """Returns the tested release for a Python version, such as (3, 12, 1); None if there is none."""
    compatible = (r for r in RELEASES if r.first_python <= tuple(version[:2]) <= r.last_python)
    return next(compatible, None)


def require(version: str) -> None:
    """Raises UserError unless a TensorFlow version such as "2.17.0" belongs to a tested release."""
    if find(version) is None:
        raise errors.UserError(
            f"the version of TensorFlow is {version}, expected {' or '.join(map(str, RELEASES))}; "
            "install the pinned version with pip install -r requirements.txt"
        )
