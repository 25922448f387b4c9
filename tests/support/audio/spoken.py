"""Synthesises sentences with eSpeak NG, as 16-bit WAV files: python tests/support/audio/spoken.py DIRECTORY

This needs a new process: only then does eSpeak NG produce the same samples, and it can start only once.
"""

import os
import subprocess
import sys

import paths

SENTENCES = (
    ("jin1tian1 tian1qi4 hen2hao3", "f1"),
    ("wo2 xi3huan5 he1 cha2", "m3"),
    ("ming2tian1 wo3men5 qu4 bei3jing1", "linda"),
    ("xie4xie5 ni3 de5 bang1zhu4", "david"),
)
NOISE_DB = {"room": 25.0, "still": None}  # signal-to-noise ratios
SAMPLE_RATE = 16000


def speak(directory) -> None:
    """Writes <variant>-room.wav and <variant>-still.wav for each sentence."""
    command = [sys.executable, os.path.abspath(__file__), str(directory)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": paths.PYTHONPATH}, check=True, timeout=120)


def _write(directory: str) -> None:
    import soundfile
    import soxr

    from tfrecord_builder.synthesis import espeak, prompts

    speaker = espeak.EspeakSynthesiser()
    for pinyin, variant in SENTENCES:
        for name, noise_db in NOISE_DB.items():
            voice = espeak.Voice(variant, variant, 175, 50, 50, level_db=6.0, noise_db=noise_db)
            speech = soxr.resample(speaker.speak(pinyin, voice, 175), speaker.sample_rate, SAMPLE_RATE)
            recorded = espeak.record(speech, SAMPLE_RATE, voice, prompts.random_state(1, pinyin))
            soundfile.write(os.path.join(directory, f"{variant}-{name}.wav"), recorded, SAMPLE_RATE)


if __name__ == "__main__":
    _write(sys.argv[1])
