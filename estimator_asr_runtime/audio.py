"""Reads audio files as mono waveforms at the model's sample rate."""

from __future__ import annotations

import io
import os
import re
import struct
from typing import NamedTuple

import numpy as np
import soundfile

from estimator_asr_runtime import errors, resampling, statuses

_SAMPLE_RATES_HZ = range(1000, 1_000_001)  # any other rate means a damaged header
_BLOCK_NUMBERS = 1 << 18  # values (samples x channels) read at a time
# Two MP3 frames whose headers start with the same bytes. Encoders may append up to 7 frames to the audio, and
# images in tags can look like frames.
_FRAMES = re.compile(rb"(?s)(\xff[\xe2-\xe5\xf2-\xf5\xfa-\xfd])[\x10-\xef].{20,2880}?\1")
_MAX_FRAME_PAIRS = 3  # more pairs than this after the end are audio
_STREAMS = {"FLAC": re.compile(rb"fLaC[\0\x80]\0\0\x22"), "OGG": re.compile(rb"OggS\0[\2\3\6\7]")}
_HEAD_BYTES = 1 << 20  # maximum size of the chunks before the samples
_CHUNK_NAME = re.compile(rb"[ -~]{4}")
_CANCELLED, _LOUD = np.float32(0.04), np.float32(0.25)  # see tfrecord_builder/audio/audio_files.py


class Audio(NamedTuple):
    """A waveform, float32 [num_samples] with full scale 1; empty unless the status is ok or unfinished."""

    waveform: np.ndarray
    status: str


class _File(io.BufferedReader):
    """A file object without a name, so that libsndfile detects the format; failed seeks are ignored."""

    name = None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        try:
            return super().seek(offset, whence)
        except (OSError, ValueError):  # the offset comes from a damaged header
            return self.tell()


def read(path: str, sample_rate: int, max_seconds: int) -> Audio:
    """Reads an audio file in any format that libsndfile supports, and resamples it to sample_rate (Hz).

    Raises errors.UserError if the file cannot be opened, or if more audio follows the end that libsndfile
    finds, because that audio would be lost.
    """
    nothing = np.zeros(0, np.float32)
    if os.path.exists(path) and not os.path.isfile(path):
        raise errors.UserError(f"{path} is not a regular file; pass the path of an audio file")
    try:
        with _File(io.FileIO(path)) as file:
            sound, status = _open(file, max_seconds)
            if sound.samplerate not in _SAMPLE_RATES_HZ:
                return Audio(nothing, statuses.MALFORMED)
            with np.errstate(over="ignore", invalid="ignore"):  # samples that overflow become NaN or Inf
                mono = _read_mono(sound, max_seconds * sound.samplerate + 1)
                if len(mono) > max_seconds * sound.samplerate:
                    return Audio(nothing, statuses.TOO_LONG)
                if _is_longer(file, sound.format):
                    raise errors.UserError(
                        f"{path} ends at {len(mono) / sound.samplerate:.2f} s, but more audio follows, as if "
                        "files had been joined; convert it to 16-bit PCM WAV"
                    )
                return Audio(resampling.resample(mono, sound.samplerate, sample_rate), status)
    except soundfile.LibsndfileError:
        return Audio(nothing, statuses.MALFORMED)
    except errors.UserError:
        raise
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise errors.UserError(f"{path}: {reason}; pass the path of an audio file") from error


def _read_mono(sound: soundfile.SoundFile, most: int) -> np.ndarray:
    """Reads up to `most` samples, mixed to mono; the header may declare more samples than there are."""
    sound.seekable = lambda: False  # soundfile would seek, which fails for FLAC of unknown length
    most = min(most, sound.frames)  # past the end, libsndfile would mistake a tag for damaged FLAC audio
    block = np.empty([max(_BLOCK_NUMBERS // sound.channels, 1), sound.channels], np.float32)
    blocks, count = [np.zeros(0, np.float32)], 0
    while count < most and len(samples := sound.read(out=block[: most - count])):
        blocks.append(samples[:, 0].copy() if sound.channels == 1 else _mix(samples))
        count += len(samples)
    return np.concatenate(blocks)


def _is_longer(file: io.BufferedReader, kind: str) -> bool:
    """Returns True if more audio follows the end: a second file, or more samples than the header declares."""
    if kind not in ("MP3", *_STREAMS):
        return False
    position = file.tell()
    file.seek(0)
    content = file.read()
    if kind == "MP3":
        return len(_FRAMES.findall(content, position)) > _MAX_FRAME_PAIRS
    is_cut = kind == "FLAC" and len(content) - position > 128  # an ID3v1 tag has 128 bytes
    return is_cut or len(_STREAMS[kind].findall(content)) > 1


def _mix(samples: np.ndarray) -> np.ndarray:
    levels, total = samples.var(axis=0), samples.sum(axis=1).var()
    if total < _CANCELLED * levels.max():
        return samples[:, np.argmax(levels >= _LOUD * levels.max())].copy()
    return samples.mean(axis=1)


def _open(file: _File, max_seconds: int) -> tuple[soundfile.SoundFile, str]:
    """Opens a file; the status is UNFINISHED if a WAV header declares 0 samples although samples follow."""
    sound = soundfile.SoundFile(file)
    if sound.frames or sound.format not in ("WAV", "WAVEX", "RF64"):
        return sound, statuses.OK
    file.seek(0)
    wav = bytearray(file.read(_HEAD_BYTES + (max_seconds + 1) * sound.samplerate * sound.channels * 8))
    start = _find_samples(wav)
    if not start:
        return sound, statuses.OK
    wav[:4] = b"RIFF"  # libsndfile would read the data size of an RF64 file from another chunk
    wav[start - 4 : start] = struct.pack("<I", len(wav) - start)
    return soundfile.SoundFile(io.BytesIO(wav + b"\0")), statuses.UNFINISHED  # pads the chunk to an even size


def _find_samples(wav: bytearray) -> int:
    """Returns the byte offset of the samples in `wav`, or 0 if other chunks fill the file to its end."""
    place, start = 12, 0
    while place + 8 <= len(wav) and (not start or _CHUNK_NAME.match(wav, place)):
        name, size = struct.unpack_from("<4sI", wav, place)
        if name == b"data" and not start:
            start, size = place + 8, 0
        place += 8 + size + size % 2
    return 0 if place - len(wav) in (0, 1) else start
