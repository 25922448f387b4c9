"""Whole programs with their start-up: our build of a corpus, and a peer with kaldi-native-fbank."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.builder import corpus

_MANIFEST = "manifest.tsv"
# A small process starts the program: the peak of one begins with the memory of the process that started it.
_LAUNCHER = """
import resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""
_HEADER = "id\taudio\tspeaker\ttext\tpinyin\tsplit\n"


def make_corpus(recordings: Sequence[corpus.SpokenFile], hours: float, directory: str) -> float:
    """Makes directory/manifest.tsv with files of its own, repeating the recordings.

    Returns:
      How many seconds of sound it lists.
    """
    os.makedirs(directory)
    seconds, number = 0.0, 0
    with open(os.path.join(directory, _MANIFEST), "w", encoding="utf-8") as file:
        file.write(_HEADER)
        while seconds < 3600 * hours:
            recording = recordings[number % len(recordings)]
            name = f"{number:06d}.wav"
            shutil.copyfile(recording.path, os.path.join(directory, name))
            file.write(f"u{number:06d}\t{name}\ts\t\t{' '.join(recording.tokens)}\ttrain\n")
            seconds, number = seconds + recording.seconds, number + 1
    return seconds


def build(corpus_dir: str, output_dir: str) -> tuple[float, int]:
    """Runs our program with one worker; returns its seconds and the peak of its memory in bytes."""
    shutil.rmtree(output_dir, ignore_errors=True)
    where = (f"--corpus_dir={corpus_dir}", f"--output_dir={output_dir}")
    return _time(sys.executable, "-m", "tfrecord_builder.build", *where, "--num_workers=1")


def build_by_hand(corpus_dir: str, output: str) -> tuple[float, int]:
    """Runs the peer's program; returns its seconds and the peak of its memory in bytes."""
    script = os.path.join(os.path.dirname(__file__), "peer.py")
    return _time(sys.executable, script, os.path.join(corpus_dir, _MANIFEST), output)


def _time(*command: str) -> tuple[float, int]:
    done = subprocess.run([sys.executable, "-c", _LAUNCHER, *command], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command)
    seconds, kibibytes = done.stdout.split()
    return float(seconds), 1024 * int(kibibytes)
