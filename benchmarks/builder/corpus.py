"""The benchmark's own input: sentences of about eight seconds, spoken by eSpeak NG, in three formats."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import multiprocessing
import os

import soundfile
import soxr

from tfrecord_builder.synthesis import espeak, prompts

SAMPLE_RATE = 16000
FORMATS = ("wav", "flac", "mp3")
_WORDS = (
    "jin1tian1 wo3men5 qu4 bei3jing1 tian1qi4 hen2hao3 ni3 xi3huan5 he1 cha2 peng2you5 shi2hou5 ma5".split()
)
_NUM_WORDS = 19  # about eight seconds
_VARIANTS = ("f1", "m3", "linda", "david")


@dataclasses.dataclass(frozen=True)
class SpokenFile:
    """An audio file, its tokens and its duration."""

    path: str
    tokens: tuple[str, ...]
    seconds: float


def make_recordings(directory: str, num_files: int) -> dict[str, list[SpokenFile]]:
    """Speaks num_files sentences into 16 kHz mono files.

    Args:
      directory: directory for the files.
      num_files: number of files; each has a different sentence or voice.

    Returns:
      The same sentences in each of FORMATS; WAV and FLAC have 16 bits.
    """
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_speak, directory, num_files).result()


def _speak(directory: str, num_files: int) -> dict[str, list[SpokenFile]]:
    speaker = espeak.EspeakSynthesiser()  # one per process; only a new process gives the same samples
    recordings = {name: [] for name in FORMATS}
    for index in range(num_files):
        voice = espeak.make_voice(_VARIANTS[index % len(_VARIANTS)], seed=1)
        rng = prompts.random_state(1, str(index))
        words = [_WORDS[i] for i in rng.randint(0, len(_WORDS), _NUM_WORDS)]
        speech = speaker.speak(" ".join(words), voice, 175)
        speech = soxr.resample(speech, speaker.sample_rate, SAMPLE_RATE)
        recorded = espeak.record(speech, SAMPLE_RATE, voice, rng)
        for name in FORMATS:
            path = os.path.join(directory, f"{index:04d}.{name}")
            soundfile.write(path, recorded, SAMPLE_RATE)
            recordings[name].append(SpokenFile(path, tuple(words), len(recorded) / SAMPLE_RATE))
    return recordings
