"""WAV files of every kind as bytes, written by soundfile or, for other variants, from chunks."""

import io
import struct

import numpy as np
import soundfile

KINDS = [
    (container, subtype)
    for container in ("WAV", "WAVEX", "RF64")
    for subtype in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW")
]
UNKNOWN = 0xFFFFFFFF


def encode(waveform: np.ndarray, rate: int = 16000, subtype="PCM_16", container: str = "WAV") -> bytes:
    """Encodes samples; if `subtype` is None, with the usual subtype of the container."""
    file = io.BytesIO()
    soundfile.write(file, waveform, rate, format=container, subtype=subtype)
    return file.getvalue()


def decode(contents: bytes) -> np.ndarray:
    """Returns the mean of the channels that libsndfile reads, float32 [num_samples]."""
    samples, _ = soundfile.read(io.BytesIO(contents), dtype="float32", always_2d=True)
    return samples.mean(axis=1) if samples.shape[1] > 1 else samples[:, 0]


def make_chunk(name: bytes, contents: bytes, size: int = -1) -> bytes:
    """Returns a chunk, padded to an even length; a `size` of 0 or more replaces the size in its header."""
    header = name + struct.pack("<I", len(contents) if size < 0 else size)
    return header + contents + b"\0" * (len(contents) % 2)


def make_format(tag=1, channels=1, rate=16000, bits=16, frame_bytes=None) -> bytes:
    frame_bytes = channels * bits // 8 if frame_bytes is None else frame_bytes
    fields = struct.pack("<HHIIHH", tag, channels, rate, rate * frame_bytes % 2**32, frame_bytes, bits)
    return make_chunk(b"fmt ", fields)


def make_file(*chunks: bytes, size: int = -1, kind: bytes = b"RIFF") -> bytes:
    contents = b"WAVE" + b"".join(chunks)
    return kind + struct.pack("<I", len(contents) if size < 0 else size) + contents
