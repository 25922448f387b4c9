"""Audio files to waveforms of the model's sample rate; channels are averaged."""

from __future__ import annotations

import io
import os
import re
from typing import NamedTuple

import numpy as np
import soundfile

from estimator_asr_runtime import errors, resampling, statuses

_SAMPLE_RATES_HZ = range(1000, 1_000_001)  # of recorders; another rate means a damaged header
_BLOCK_NUMBERS = 1 << 18
_FRAME = re.compile(rb"\xff[\xe2-\xe5\xf2-\xf5\xfa-\xfd][\x10-\xef]")  # how an MP3 frame begins
_STREAMS = {"FLAC": re.compile(rb"fLaC[\0\x80]\0\0\x22"), "OGG": re.compile(rb"OggS\0[\2\3\6\7]")}
# The first frame of most MP3s: the last 12 bits are the samples that the encoder added at the end.
_INFO = re.compile(rb"(?:Xing|Info)\0\0\0\x0f.{133}(..)", re.DOTALL)


class Audio(NamedTuple):
    """A waveform, float32 [num_samples], full scale 1; empty unless the status is ok."""

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


def read(path: str, sample_rate: int, max_seconds: int) -> Audio:
    """Reads an audio file of any format of libsndfile; sample_rate (Hz) is that of the result.

    Raises errors.UserError if the file cannot be opened, or libsndfile leaves out what follows its end.
    """
    nothing = np.zeros(0, np.float32)
    if os.path.exists(path) and not os.path.isfile(path):
        raise errors.UserError(f"{path}: is not a regular file, expected an audio file; pass the path of one")
    try:
        with _File(io.FileIO(path)) as file, soundfile.SoundFile(file) as sound:
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
                return Audio(resampling.resample(mono, sound.samplerate, sample_rate), statuses.OK)
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
        blocks.append(samples[:, 0].copy() if sound.channels == 1 else np.mean(samples, axis=1))
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
