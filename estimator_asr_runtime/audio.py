"""Audio files to waveforms of the model's sample rate; channels are mixed."""

from __future__ import annotations

import io
import mmap
import os
import re
import struct
from typing import NamedTuple, Optional

import numpy as np
import soundfile

from estimator_asr_runtime import errors, resampling, statuses

_SAMPLE_RATES_HZ = range(1000, 1_000_001)  # of recorders; another rate means a damaged header
_BLOCK_NUMBERS = 1 << 18
_FRAME = re.compile(rb"\xff[\xe2-\xe5\xf2-\xf5\xfa-\xfd][\x10-\xef]")  # how an MP3 frame begins
_STREAMS = {"FLAC": re.compile(rb"fLaC[\0\x80]\0\0\x22"), "OGG": re.compile(rb"OggS\0[\2\3\6\7]")}
# The first frame of most MP3s: the last 12 bits are the samples that the encoder added at the end.
_INFO = re.compile(rb"(?:Xing|Info)\0\0\0\x0f.{133}(..)", re.DOTALL)
_UNKNOWN_SIZE, _MAX_CHUNKS = 0xFFFFFFFF, 128
_CHUNK_NAME = re.compile(rb"[ -~]{4}")
_CANCELLED, _LOUD = np.float32(0.04), np.float32(0.25)  # as in tfrecord_builder/audio/audio_files.py


class Audio(NamedTuple):
    """A waveform, float32 [num_samples], full scale 1; empty unless the status is ok or unfinished."""

    waveform: np.ndarray
    status: str


class _File(io.BufferedReader):
    """A file whose content tells its format, and which stays where it is if it cannot seek."""

    name = None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        try:
            return super().seek(offset, whence)
        except (OSError, ValueError):  # the offset is of a damaged header
            return self.tell()


class _Map(mmap.mmap):
    def seek(self, offset: int, whence: int = os.SEEK_SET) -> None:
        """Stays within the file: libsndfile expects padding after an odd number of bytes."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: len(self)}[whence]
        super().seek(max(0, min(start + offset, len(self))))


def read(path: str, sample_rate: int, max_seconds: int) -> Audio:
    """Reads an audio file of any format of libsndfile; sample_rate (Hz) is that of the result.

    Raises errors.UserError if the file cannot be opened, or libsndfile leaves out what follows its end.
    """
    nothing = np.zeros(0, np.float32)
    if os.path.exists(path) and not os.path.isfile(path):
        raise errors.UserError(f"{path}: is not a regular file, expected an audio file; pass the path of one")
    try:
        with _File(io.FileIO(path)) as file, soundfile.SoundFile(repaired := _repair(file) or file) as sound:
            if sound.samplerate not in _SAMPLE_RATES_HZ:
                return Audio(nothing, statuses.MALFORMED)
            with np.errstate(over="ignore", invalid="ignore"):  # such samples become NaN or Inf
                mono = _read_mono(sound, max_seconds * sound.samplerate + 1)
                if len(mono) > max_seconds * sound.samplerate:
                    return Audio(nothing, statuses.TOO_LONG)
                if _is_longer(file, sound.format):
                    raise errors.UserError(
                        f"{path}: more audio follows its end at {len(mono) / sound.samplerate:.2f} s, as in "
                        "files that were joined; convert it to WAV, 16-bit PCM"
                    )
                status = statuses.OK if repaired is file else statuses.UNFINISHED
                return Audio(resampling.resample(mono, sound.samplerate, sample_rate), status)
    except soundfile.LibsndfileError:
        return Audio(nothing, statuses.MALFORMED)
    except errors.UserError:
        raise
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise errors.UserError(f"{path}: {reason}; pass the path of an audio file") from error


def _read_mono(sound: soundfile.SoundFile, most: int) -> np.ndarray:
    """Reads samples until there are none or enough; the header may have another number."""
    sound.seekable = lambda: False  # to read on: soundfile would seek, which FLAC of unknown length refuses
    most = min(most, sound.frames)  # after it, a tag would be a damaged FLAC
    block = np.empty([max(_BLOCK_NUMBERS // sound.channels, 1), sound.channels], np.float32)
    blocks, count = [np.zeros(0, np.float32)], 0
    while count < most and len(samples := sound.read(out=block[: most - count])):
        blocks.append(samples[:, 0].copy() if sound.channels == 1 else _mix(samples))
        count += len(samples)
    return np.concatenate(blocks)


def _is_longer(file: io.BufferedReader, kind: str) -> bool:
    """Returns whether audio follows what was read: a second file, or more than a header promises."""
    position = file.tell()
    file.seek(0)
    content = file.read()
    if kind == "MP3":
        info = _INFO.search(content)
        num_padding = (int.from_bytes(info[1], "big") & 4095) // 576 if info else 0  # frames
        return len(_FRAME.findall(content, position)) > num_padding
    is_cut = kind == "FLAC" and len(content) - position > 128  # bytes of an ID3v1 tag
    return is_cut or (kind in _STREAMS and len(_STREAMS[kind].findall(content)) > 1)


def _mix(samples: np.ndarray) -> np.ndarray:
    levels, total = samples.var(axis=0), samples.sum(axis=1).var()
    if total < _CANCELLED * levels.max():
        return samples[:, np.argmax(levels >= _LOUD * levels.max())].copy()
    return samples.mean(axis=1)


def _repair(file: _File) -> Optional[_Map]:
    """Maps a WAV file whose header says 0 samples while samples follow, with their number in its header.

    Returns None for others; equals tfrecord_builder/audio/unfinished_wav.py.
    """
    head = file.peek(12)[:12]
    if head[:4] not in (b"RIFF", b"RF64", b"BW64") or head[8:] != b"WAVE":
        return None
    wav = _Map(file.fileno(), 0, access=mmap.ACCESS_COPY)
    start, place, large_size = 12, 0, _UNKNOWN_SIZE
    for _ in range(_MAX_CHUNKS):
        name, size = struct.unpack("<4sI", wav[start : start + 8].ljust(8, b"\xff"))
        if place and not _CHUNK_NAME.fullmatch(name):
            break
        if name == b"ds64":
            large_size = int.from_bytes(wav[start + 16 : start + 24], "little")
        elif name == b"data" and not place:
            place, size = start + 4, large_size if size == _UNKNOWN_SIZE else size
            if size:
                return None
        start += 8 + size + size % 2
    if not place or start - len(wav) in (0, 1):
        return None
    wav[:4] = b"RIFF"  # RF64 has the number elsewhere
    wav[place : place + 4] = struct.pack("<I", min(len(wav) - place - 4, _UNKNOWN_SIZE))
    return wav
