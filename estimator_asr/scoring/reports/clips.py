"""Measures the loudness of recordings, and encodes recordings as MP3, which any browser can play."""

from __future__ import annotations

import base64
import contextlib
import io
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import soundfile

from tfrecord_builder import errors
from tfrecord_builder.audio import segment_reader
from tfrecord_builder.data import recordings
from tfrecord_builder.program import progress_bar, urls

_SAMPLE_RATE = 16000  # Hz; supported by MP3
_MAX_EMBEDDED_SECONDS = 30.0
_SILENCE_DBFS = -100.0
_FFT_SIZE, _NUM_ROWS, _MAX_COLUMNS, _RANGE_DB = 512, 64, 160, 70.0
_FULL_SCALE_SINE = math.sqrt(0.5)  # RMS value that corresponds to 0 dBFS


def measure_levels(by_id: Mapping[str, recordings.Recording]) -> dict[str, float]:
    """Returns the RMS level in dBFS of each recording that can be read; a full-scale sine is 0 dBFS."""
    levels = {}
    for name, recording in progress_bar.ProgressBar(by_id.items(), unit=" recordings", desc="loudness"):
        for _, waveform in _read({name: recording}):
            rms = float(np.sqrt(np.mean(np.square(waveform))))
            levels[name] = max(_SILENCE_DBFS, 20 * math.log10(max(rms, 1e-9) / _FULL_SCALE_SINE))
    return levels


def embed(by_id: Mapping[str, recordings.Recording], names: Sequence[str]) -> dict[str, dict]:
    """Returns the named recordings that can be read, keyed by name.

    Each value is {"url": data URL of an MP3 file, "picture": spectrogram as base64, one byte per pixel, row
    by row from the highest frequency, "width": number of columns of the spectrogram}.
    """
    chosen = {name: by_id[name] for name in names if name in by_id}
    return {name: _embed(waveform) for name, waveform in _read(chosen, _MAX_EMBEDDED_SECONDS)}


def _embed(waveform: np.ndarray) -> dict:
    file = io.BytesIO()
    soundfile.write(file, np.clip(waveform, -1, 1), _SAMPLE_RATE, format="MP3")
    picture = draw(waveform)
    sound, pixels = (base64.b64encode(data).decode() for data in (file.getvalue(), picture.tobytes()))
    return {"url": f"data:audio/mpeg;base64,{sound}", "picture": pixels, "width": picture.shape[1]}


def draw(waveform: np.ndarray) -> np.ndarray:
    """Returns the spectrogram of 16 kHz audio, 0 to 8 kHz: uint8 [64, num_columns], at most 160 columns.

    The first row holds the highest frequency. The loudest value is 255; values at least 70 dB lower are 0.
    """
    padded = np.pad(waveform, (0, max(0, _FFT_SIZE - len(waveform))))
    starts = np.linspace(0, len(padded) - _FFT_SIZE, min(_MAX_COLUMNS, 1 + len(padded) // _FFT_SIZE * 2))
    frames = padded[starts.astype(int)[:, None] + np.arange(_FFT_SIZE)] * np.hanning(_FFT_SIZE)
    power = np.abs(np.fft.rfft(frames)[:, 1:]) ** 2
    pooled = power.reshape(len(starts), _NUM_ROWS, -1).max(axis=2)
    decibels = 10 * np.log10(pooled.T[::-1] + 1e-12)
    return np.clip(255 * (1 + (decibels - decibels.max()) / _RANGE_DB), 0, 255).astype(np.uint8)


def _read(by_id: Mapping[str, recordings.Recording], max_seconds: float = math.inf) -> Iterator[tuple]:
    """Yields names and float32 samples at 16 kHz; a file is decoded once for all its segments.

    Leaves out files that are remote, missing, too long or damaged.
    """
    by_path: dict[str, dict[str, tuple]] = {}
    for name, recording in by_id.items():
        segment = recording.start_seconds, recording.seconds, recording.channel
        by_path.setdefault(recording.path, {})[name] = segment
    for path, segments in by_path.items():
        if urls.is_remote(path):
            continue
        read = segment_reader.read(path, list(segments.values()), _SAMPLE_RATE, max_seconds)
        with contextlib.suppress(OSError):
            for name, waveform in zip(segments, read):
                # The MP3 encoder aborts on NaN.
                if not isinstance(waveform, errors.UserError) and np.isfinite(waveform).all():
                    yield name, waveform
