"""Times transcription beside CTranslate2's Whisper base in int8, and prints real-time factors.

    python -m pip install -r benchmarks/requirements.txt
    python -m benchmarks.transcription
    python -m benchmarks.transcription --saved_model=EXPORT --audio_dir=CORPUS

Both transcribe the same recordings, one at a time, with two threads, in turns. Both get samples, and compute
log-mel with the same operations:

    ours         an exported SavedModel, audio to hanzi, called as estimator_asr.transcribe calls it
    CTranslate2  Whisper base in int8; as in faster-whisper, a recording is padded to 30 seconds

Without --saved_model, the programs make an export from recordings spoken by eSpeak NG, an encoder of
whisper-base's size with random weights, and both models of flags/whisper, trained only on these recordings;
the table shows the number of hanzi that the export outputs. The peer also has random weights, because nothing
is downloaded; its speed does not depend on their values. The peer decodes greedily (a beam of 1, its fastest
setting), and outputs as many tokens as the reference has hanzi. --audio_dir contains recordings and a
manifest.tsv, as for --corpus=manifest. The real-time factor is seconds of computing per second of audio, as
the median over the rounds. A missed bar is marked FAIL, and the exit code is then 1.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import statistics
import tempfile
from collections.abc import Sequence
from typing import Optional

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import numpy as np
import tensorflow as tf

from benchmarks import bars, comparison, machine
from benchmarks.pretrained import random_whisper
from benchmarks.transcription import ours as transcription_ours
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.corpora import registry
from tfrecord_builder.labels import normalisation
from tfrecord_builder.program import config_flags, program

_MAX_SECONDS = 30.0  # length of Whisper's window
_TIMES_FASTER = 3


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model, the recordings, and how often they are transcribed."""

    saved_model: Optional[str] = config_flags.setting(None, "export directory; if empty, an export is made")
    audio_dir: Optional[str] = config_flags.setting(
        None, "directory with manifest.tsv; if empty, recordings are synthesised"
    )
    num_recordings: int = config_flags.setting(8, "recordings, evenly from those of --audio_dir", minimum=1)
    train_epochs: int = config_flags.setting(60, "number of epochs for the models that are made", minimum=1)
    whisper_layers: int = config_flags.setting(
        6, "blocks of the encoder that is made, and of the peer's encoder and decoder", minimum=1
    )
    whisper_units: int = config_flags.setting(512, "width of these blocks, a multiple of 64", minimum=64)
    rounds: int = config_flags.setting(5, "number of rounds that are timed", minimum=1)


@dataclasses.dataclass(frozen=True)
class Recording:
    """Samples, float32 [num_samples], and the number of hanzi (or syllables) of the reference."""

    path: str
    waveform: np.ndarray
    num_labels: int


def main(config: BenchmarkConfig) -> int:
    """Prints the table and the bar; returns 1 if it is missed."""
    machine.check("ctranslate2", "CTranslate2")
    tf.get_logger().setLevel(logging.ERROR)
    tf.compat.v1.disable_eager_execution()
    with tempfile.TemporaryDirectory() as directory:
        corpus_dir, saved_model = make_missing(config, directory)
        ours = transcription_ours.Transcriber(saved_model)
        recordings = read_recordings(corpus_dir, config.num_recordings, ours.sample_rate)
        found = time_sides(ours, make_peer(config, directory), recordings, config.rounds)
    return bars.show(found)


def make_missing(config: BenchmarkConfig, directory: str) -> tuple[str, str]:
    """Returns the directories of the recordings and of the SavedModel, made if they are not given."""
    corpus_dir, saved_model = config.audio_dir, config.saved_model
    if corpus_dir is None or saved_model is None:
        spoken = transcription_ours.make_corpus(os.path.join(directory, "corpus"), config.num_recordings)
        corpus_dir = corpus_dir or spoken
    if saved_model is None:
        weights_dir = random_whisper.write(os.path.join(directory, "whisper"), _sizes(config))
        saved_model = transcription_ours.make_saved_model(spoken, weights_dir, directory, config.train_epochs)
    return corpus_dir, saved_model


def make_peer(config: BenchmarkConfig, directory: str):
    """Returns the peer of the sizes of config; its files are written to a directory."""
    from benchmarks.transcription import peer as transcription_peer

    path = os.path.join(directory, "ctranslate2")
    transcription_peer.write(path, _sizes(config))
    return transcription_peer.Transcriber(path, machine.NUM_CORES)


def read_recordings(corpus_dir: str, count: int, sample_rate: int) -> list[Recording]:
    """Reads up to `count` recordings of a corpus with manifest.tsv, evenly from first to last.

    Raises:
        errors.UserError: the corpus has no recording with a reference, or one cannot be read or is
            longer than 30 seconds.
    """
    listed = [each for each in registry.list_utterances("manifest", [corpus_dir]) if _count_labels(each)]
    if not listed:
        raise errors.UserError(
            f"{corpus_dir}: no recording has hanzi or pinyin; add transcripts to manifest.tsv"
        )
    count = min(count, len(listed))
    chosen = [listed[len(listed) * number // count] for number in range(count)]
    return [
        Recording(
            each.audio,
            audio_files.read_audio(
                each.audio, sample_rate, _MAX_SECONDS, each.start_seconds, each.seconds, each.channel
            ),
            _count_labels(each),
        )
        for each in chosen
    ]


def time_sides(ours, peer, recordings: Sequence[Recording], rounds: int) -> list[bars.Bar]:
    """Times both sides in turns, and prints the table."""
    loops = {
        "ours": lambda: [ours.transcribe(each.waveform) for each in recordings],
        "CTranslate2": lambda: [peer.transcribe(each.waveform, each.num_labels) for each in recordings],
    }
    written = {name: sum(map(len, run())) for name, run in loops.items()}
    seconds = comparison.time_in_turns(loops, rounds)
    audio_seconds = sum(each.waveform.size for each in recordings) / ours.sample_rate
    expected = sum(each.num_labels for each in recordings)
    print(f"{len(recordings)} recordings, {audio_seconds:.1f} s of speech, {expected} hanzi, {rounds} rounds")
    print(f"{'side':14}{'seconds':>9}{'real-time factor':>18}{'x real time':>13}{'written':>9}")
    for name, taken in seconds.items():
        median = statistics.median(taken)
        print(f"{name:14}{median:9.3f}{median / audio_seconds:18.4f}", end="")
        print(f"{audio_seconds / median:13,.0f}{written[name]:9}")
    faster = bars.ratio(seconds["CTranslate2"], seconds["ours"])
    return [bars.Bar("transcription, times as fast as CTranslate2", faster, minimum=_TIMES_FASTER)]


def _count_labels(utterance) -> int:
    hanzi = sum(normalisation.is_hanzi(character) for character in utterance.text)
    return hanzi or len(utterance.pinyin.split())


def _sizes(config):
    return random_whisper.make_sizes(config.whisper_layers, config.whisper_units)


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
