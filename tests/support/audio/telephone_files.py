"""Encodes a tone with PyAV in formats of telephones, browsers and other recorders: MP4, WebM, AAC, MP3."""

import fractions
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
    "mkv": ("matroska", "aac", 16000),
    "ts": ("mpegts", "aac", 16000),
    "wma": ("asf", "wmav2", 44100),
    "mp3": ("mp3", "libmp3lame", 16000),
    "opus": ("ogg", "libopus", 48000),
    "ogg flac": ("ogg", "flac", 16000),
}


def set_flac_length(flac: bytes, num_samples: int) -> bytes:
    """Changes the number of samples in a FLAC header; files written to a pipe have 0."""
    return flac[:21] + bytes([flac[21] & 0xF0]) + num_samples.to_bytes(4, "big") + flac[26:]


def loudest_hz(samples: np.ndarray, rate: int = 16000) -> float:
    return np.argmax(np.abs(np.fft.rfft(samples * np.hanning(len(samples))))) * rate / len(samples)


@functools.cache
def encode(
    kind, seconds=2.0, level=0.5, video_seconds=0.0, hz=HZ, start=0.0, pause=0.0, rate=0, channels=1, **more
) -> bytes:
    """Returns a file with a tone, with a video if video_seconds is not 0, or only a video if seconds is 0.

    The timestamps of the packets begin at `start` and jump by `pause` seconds in the middle. `more` are
    options of FFmpeg's format.
    """
    import av

    container_format, codec, usual_rate = KINDS[kind]
    layout = "mono" if channels == 1 else "stereo"
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "a"
        with av.open(str(path), "w", format=container_format, options=more) as container:
            audio = container.add_stream(codec, rate=rate or usual_rate, layout=layout) if seconds else None
            if codec == "wmav2":
                audio.bit_rate = 64000
            if video_seconds:
                _write_video(av, container, video_seconds)
            if audio:
                times = np.arange(int(seconds * audio.rate)) / audio.rate
                _write_tone(av, container, audio, level * np.sin(2 * np.pi * hz * times), start, pause)
        return path.read_bytes()


def _write_tone(av, container, stream, samples, start, pause):
    layout = stream.layout.name
    numbers = np.repeat(np.int16(32767 * samples), stream.channels)[None]
    frame = av.AudioFrame.from_ndarray(numbers, format="s16", layout=layout)
    frame.sample_rate = stream.rate
    fifo, count = av.AudioFifo(), 0
    for resampled in av.AudioResampler(stream.codec_context.format.name, layout, stream.rate).resample(frame):
        fifo.write(resampled)
    for part in fifo.read_many(stream.codec_context.frame_size or 1024, partial=True):
        shift = start + (pause if count >= len(samples) // 2 else 0.0)
        part.pts, part.time_base = count + round(shift * stream.rate), fractions.Fraction(1, stream.rate)
        count += part.samples
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
