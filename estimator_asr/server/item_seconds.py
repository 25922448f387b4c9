"""How many seconds of audio an item has: what it costs, before it is recognised."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Mapping

from estimator_asr.saved_model import statuses
from estimator_asr.server import api_errors
from tfrecord_builder.audio import frontend

_SECONDS_PER_TOKEN = 0.2  # an utterance of pinyin, as if spoken
_LENGTHS = {"waveform": "num_samples", "fbank": "num_frames"}


def measure(where: str, row: Mapping, config: frontend.FrontendConfig) -> float:
    """Returns the seconds of one item's inputs; for a WAV file by its header.

    Raises:
        api_errors.ApiError: num_samples or num_frames does not fit the other input.
    """
    for name, length in _LENGTHS.items():
        if name in row:
            _check_length(f"{where}.{length}", int(row[length]), len(row[name]))
    if "wav_bytes" in row:
        return wav_seconds(row["wav_bytes"], config.sample_rate)
    if "waveform" in row:
        return len(row["waveform"]) / config.sample_rate
    if "fbank" in row:
        subsampling = config.encoder.encoder.subsampling if config.encoder else 1
        return len(row["fbank"]) * config.hop_ms * subsampling / 1000
    return _SECONDS_PER_TOKEN * sum(len(value.split()) for value in row.values() if isinstance(value, bytes))


def wav_seconds(content: bytes, sample_rate: int) -> float:
    """Returns the seconds of a WAV file, or those of 8-bit audio if its header cannot be read."""
    bytes_per_second = sample_rate
    for name, start, size in itertools.islice(_list_chunks(content), statuses.MAX_CHUNKS):
        if name == b"fmt " and size >= 16 and start + 16 <= len(content):
            _, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", content, start)
            bytes_per_second = channels * rate * max(bits, 8) // 8 or sample_rate
            break
    return len(content) / bytes_per_second


def _list_chunks(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yields name, start and size of each chunk; the last one may be cut."""
    start = 12
    while start + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, start)
        yield name, start + 8, size
        start += 8 + size + size % 2


def _check_length(where: str, length: int, available: int) -> None:
    if not 0 <= length <= available:
        raise api_errors.refuse(f"{where}: is {length}, expected 0 to {available}; send how much there is")
