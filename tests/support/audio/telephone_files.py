"""Recordings of telephones and browsers, encoded by PyAV: a tone in MP4, WebM, AAC and AMR."""

from __future__ import annotations

import functools
import pathlib
import tempfile

import numpy as np

HZ = 440.0
# name: (FFmpeg's format, codec, sample rate in Hz)
KINDS = {
    "m4a": ("mp4", "aac", 44100),
    "webm": ("webm", "libopus", 48000),
    "aac": ("adts", "aac", 16000),
    "3gp": ("3gp", "libopencore_amrnb", 8000),
    "amr": ("amr", "libopencore_amrnb", 8000),
}


@functools.cache
def encode(kind: str, seconds: float = 2.0, level: float = 0.5, video_seconds=0.0, **options) -> bytes:
    """A tone; `options` are those of FFmpeg's format. A video may be beside it, or alone for 0 seconds."""
    import av

    container_format, codec, rate = KINDS[kind]
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "a"
        with av.open(str(path), "w", format=container_format, options=options) as container:
            audio = container.add_stream(codec, rate=rate, layout="mono") if seconds else None
            if video_seconds:
                _write_video(av, container, video_seconds)
            if audio:
                _write_tone(
                    av,
                    container,
                    audio,
                    np.sin(2 * np.pi * HZ * np.arange(int(seconds * rate)) / rate) * level,
                )
        return path.read_bytes()


def _write_tone(av, container, stream, samples):
    frame = av.AudioFrame.from_ndarray(np.int16(32767 * samples)[None], format="s16", layout="mono")
    frame.sample_rate = stream.rate
    fifo = av.AudioFifo()
    for resampled in av.AudioResampler(stream.codec_context.format.name, "mono", stream.rate).resample(frame):
        fifo.write(resampled)
    for part in fifo.read_many(stream.codec_context.frame_size, partial=True):
        container.mux(stream.encode(part))
    container.mux(stream.encode(None))


def _write_video(av, container, seconds):
    stream = container.add_stream("mpeg4", rate=10)
    stream.width = stream.height = 64
    stream.pix_fmt = "yuv420p"
    for _ in range(int(10 * seconds)):
        image = np.zeros((64, 64, 3), np.uint8)
        container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
    container.mux(stream.encode(None))
