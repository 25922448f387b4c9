"""Whole programs with their start-up: our build of a corpus, and a peer with kaldi-native-fbank."""

import os
import shutil
from collections.abc import Sequence

from benchmarks.builder import corpus
from benchmarks.devices import starts

_MANIFEST = "manifest.tsv"
_HEADER = "id\taudio\tspeaker\ttext\tpinyin\tsplit\n"


def make_corpus(recordings: Sequence[corpus.SpokenFile], hours: float, directory: str) -> float:
    """Writes directory/manifest.tsv and its audio files, which repeat the recordings.

    Returns:
      The total duration of the listed files, in seconds.
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


def build(corpus_dir: str, output_dir: str) -> float:
    """Runs our program with one worker; returns its seconds."""
    shutil.rmtree(output_dir, ignore_errors=True)
    where = (f"--corpus_dir={corpus_dir}", f"--output_dir={output_dir}")
    return starts.measure("tfrecord_builder.build", *where, "--num_workers=1").seconds


def build_by_hand(corpus_dir: str, output: str) -> float:
    """Runs the peer's program; returns its seconds."""
    return starts.measure("benchmarks.builder.peer", os.path.join(corpus_dir, _MANIFEST), output).seconds
