"""The folders of noises and room responses: found, and looked at, once, when a build starts."""

from __future__ import annotations

import dataclasses
import os

import soundfile

from tfrecord_builder import errors, files
from tfrecord_builder.augmentation import augmentation_config

SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")
MAX_ROOM_SECONDS = 10.0  # the longest reverberation of a cathedral; a longer file is no response
_UNKNOWN_SECONDS = 1e9  # a FLAC from a pipe counts 2^63 - 1 samples


@dataclasses.dataclass(frozen=True)
class Source:
    """One recording.

    Attributes:
      path: absolute, or with a scheme.
      name: relative to its folder.
      seconds: how long it is, rounded down to ms.
      stamp: bytes and time of the last change.
    """

    path: str
    name: str
    seconds: float
    stamp: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Sources:
    """What augmentation draws from, each in the order of the names."""

    rooms: tuple[Source, ...] = ()
    noises: tuple[Source, ...] = ()

    def describe(self) -> list:
        """Gives what a build depends on, as JSON has it: name, bytes and time of each recording."""
        return [[[each.name, *each.stamp] for each in found] for found in (self.rooms, self.noises)]


def find_sources(config: augmentation_config.AugmentationConfig) -> Sources:
    """Finds the WAV, FLAC, Ogg and MP3 files in the folders, at any depth, and reads their headers.

    Raises:
      UserError: a folder is not there or has none, or a file is no audio, empty or (for a room) too long.
    """
    return Sources(
        rooms=_find("room_dir", config.room_dir, MAX_ROOM_SECONDS) if config.room_dir else (),
        noises=_find("noise_dir", config.noise_dir, None) if config.noise_dir else (),
    )


def _find(flag: str, directory: str, max_seconds: float | None) -> tuple[Source, ...]:
    if not files.is_directory(directory):
        raise errors.UserError(
            f"--{flag}: {directory} is no directory, expected one of audio files; give another --{flag}."
        )
    where = directory if files.is_remote(directory) else os.path.abspath(directory)
    names = sorted(path[len(where) :].lstrip("/") for path in files.find_files(where, SUFFIXES))
    if not names:
        raise errors.UserError(
            f"--{flag}: {directory} holds no audio file, expected {', '.join(SUFFIXES)}; "
            f"give another --{flag}."
        )
    return tuple(_inspect(flag, os.path.join(where, name), name, max_seconds) for name in names)


def _inspect(flag: str, path: str, name: str, max_seconds: float | None) -> Source:
    try:
        with files.open_binary(path) as file, soundfile.SoundFile(file.fileno(), closefd=False) as stream:
            seconds = 1000 * stream.frames // stream.samplerate / 1000
    except (OSError, soundfile.SoundFileError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "error_string", error)
        raise errors.UserError(
            f"--{flag}: {path} cannot be read ({str(reason).rstrip('.')}), expected audio; "
            "copy it again or remove it."
        ) from error
    if not 0 < seconds <= (max_seconds or _UNKNOWN_SECONDS):
        expected = f"at most {max_seconds:g} s" if max_seconds else "some, of a known length"
        raise errors.UserError(
            f"--{flag}: {path} has {seconds:g} s of audio, expected {expected}; remove it from the folder."
        )
    return Source(path, name, seconds, files.size_and_time(path))
