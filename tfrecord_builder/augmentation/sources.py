"""Directories of noise recordings and room impulse responses, listed and checked once when a build starts."""

from __future__ import annotations

import dataclasses
import os
from typing import Optional

import soundfile

from tfrecord_builder import errors
from tfrecord_builder.augmentation import augmentation_config
from tfrecord_builder.storage import files

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")
MAX_RIR_SECONDS = 10.0  # the longest reverberation of a cathedral
_UNKNOWN_SECONDS = 1e9  # a FLAC from a pipe has a count of 2^63 - 1 samples


@dataclasses.dataclass(frozen=True)
class Source:
    """One recording.

    Attributes:
        path: absolute, or with a scheme.
        name: relative to the directory.
        seconds: duration, rounded down to ms.
        signature: size in bytes and modification time.
    """

    path: str
    name: str
    seconds: float
    signature: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Sources:
    """What augmentation samples from, sorted by name."""

    rirs: tuple[Source, ...] = ()
    noises: tuple[Source, ...] = ()

    def describe(self) -> list:
        """Returns what a build depends on, for JSON: name, size and time of each recording."""
        return [[[each.name, *each.signature] for each in found] for found in (self.rirs, self.noises)]


def find_sources(config: augmentation_config.AugmentationConfig) -> Sources:
    """Finds the WAV, FLAC, Ogg and MP3 files in the directories, recursively, and reads their headers.

    Raises:
        UserError: a directory does not exist or has no such file, or a file is not audio, is empty or (an
            impulse response) too long.
    """
    return Sources(
        rirs=_find("rir_dir", config.rir_dir, MAX_RIR_SECONDS) if config.rir_dir else (),
        noises=_find("noise_dir", config.noise_dir, None) if config.noise_dir else (),
    )


def _find(flag: str, directory: str, max_seconds: Optional[float]) -> tuple[Source, ...]:
    if not files.is_directory(directory):
        raise errors.UserError(f"--{flag}: {directory} is not a directory; choose one of audio files.")
    where = directory if files.is_remote(directory) else os.path.abspath(directory)
    names = sorted(path[len(where) :].lstrip("/") for path in files.find_files(where, SUFFIXES))
    if not names:
        raise errors.UserError(
            f"--{flag}: {directory} has no audio, expected {', '.join(SUFFIXES)}; choose another directory."
        )
    return tuple(_inspect(flag, os.path.join(where, name), name, max_seconds) for name in names)


def _inspect(flag: str, path: str, name: str, max_seconds: Optional[float]) -> Source:
    try:
        with files.open_binary(path) as file, soundfile.SoundFile(file.fileno(), closefd=False) as stream:
            seconds = 1000 * stream.frames // stream.samplerate / 1000
    except (OSError, soundfile.SoundFileError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "error_string", error)
        raise errors.UserError(
            f"--{flag}: {path} cannot be read ({str(reason).rstrip('.')}); copy it again or remove it."
        ) from error
    if not 0 < seconds <= (max_seconds or _UNKNOWN_SECONDS):
        expected = f"at most {max_seconds:g} s" if max_seconds else "a known duration"
        raise errors.UserError(
            f"--{flag}: {path} has {seconds:g} s of audio, expected {expected}; remove it from the directory."
        )
    return Source(path, name, seconds, files.size_and_time(path))
