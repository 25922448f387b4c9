"""Random invalid or malicious recordings, as bytes."""

import functools
import io
import random
import struct

import numpy as np
import soundfile
import telephone_files
import wav_files


@functools.cache
def make_speech(container="WAV", subtype="PCM_16") -> bytes:
    return make_noise(0.5, 16000, container, subtype)


def make_noise(seconds: float, rate: int, container: str, subtype: str) -> bytes:
    noise = np.random.default_rng(3).normal(0, 0.1, int(seconds * rate))
    return wav_files.encode(noise, rate, subtype=subtype, container=container)


@functools.cache
def _hours_of_silence() -> bytes:
    """Returns a FLAC file with three hours of silence in about 100 KiB."""
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", 16000, 1, format="FLAC", subtype="PCM_16") as writer:
        for _ in range(180):
            writer.write(np.zeros(16000 * 60, np.int16))
    return file.getvalue()


def make_random(rng: random.Random) -> bytes:
    start = rng.choice([b"", b"RIFF", b"RIFF\0\0\0\0WAVEfmt ", b"fLaC", b"OggS", b"ID3", b"\xff\xfb\x90"])
    return start + rng.randbytes(rng.choice([0, 1, 50, 5000]))


def make_lying_wav(rng: random.Random) -> bytes:
    """Returns a WAV file whose header contains wrong numbers."""
    numbers = [0, 1, 2, 3, 7, 255, 2**15, 2**16 - 1, 16000]
    large = [0, 1, 4, 2**31 - 1, 2**31, 2**32 - 1, 16000, 10**9]
    fields = [rng.choice(numbers) for _ in range(2)] + [rng.choice(large) for _ in range(2)]
    fields += [rng.choice(numbers) for _ in range(2)]
    chunks = [struct.pack("<4sIHHIIHH", b"fmt ", rng.choice([16, *large]), *fields)]
    chunks.append(struct.pack("<4sI", b"data", rng.choice(large)) + bytes(rng.choice([0, 1, 4000])))
    rng.shuffle(chunks)
    kind = rng.choice([b"RIFF", b"RF64", b"BW64", b"RIFX"])
    return struct.pack("<4sI4s", kind, rng.choice(large), b"WAVE") + b"".join(chunks)


def make_not_finite(rng: random.Random) -> bytes:
    samples = np.full(8000, rng.choice([np.nan, np.inf, 1e30, 0.1]), np.float32)
    samples[rng.randrange(8000)] = rng.choice([np.nan, -np.inf, 3e38, 1e-45])
    return wav_files.encode(
        samples, rng.choice([1, 8000, 16000, 10**6]), subtype=rng.choice(["FLOAT", "DOUBLE"])
    )


def make_bomb(rng: random.Random) -> bytes:
    """Returns a FLAC file with hours of silence whose header may state one second or an unknown duration."""
    content, num_samples = _hours_of_silence(), rng.choice([None, 0, 16000])
    return content if num_samples is None else telephone_files.set_flac_length(content, num_samples)
