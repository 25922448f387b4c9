"""Compares the speed of our CTC prefix beam search with ctc-beam-decoder and pyctcdecode.

    python -m pip install -r benchmarks/requirements.txt
    python -m benchmarks.decoding

All decode the same posteriors with a beam width of 10 and no n-gram model. The posteriors resemble those of a
trained model: a token every five frames with a few alternatives; in most other frames, the blank is almost
certain. The decoders run in turns. Ours decodes one utterance at a time, searching every frame, and then
batches of 16, skipping certain blanks, both with two threads. The peers decode one utterance after the other
in a single thread, and prune with their default settings. A missed bar is marked FAIL, and the exit code is
then 1.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import statistics
from collections.abc import Callable

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import numpy as np
import tensorflow as tf

from benchmarks import bars, comparison, machine
from estimator_asr.decoding.search import decoders
from estimator_asr.experiment import config as config_lib
from tfrecord_builder.program import config_flags, program

_BEAM_WIDTH = 10
_BATCH_SIZE = 16
_FRAMES_PER_TOKEN = 5
_MAX_MILLISECONDS = 40
_MIN_UTTERANCES = 400  # per second
_PEERS = {"ctc-beam-decoder, one thread": "ctc_beam_decoder", "pyctcdecode, one thread": "pyctcdecode"}


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The posteriors, and how often they are decoded."""

    num_utterances: int = config_flags.setting(
        32, "number of utterances; the last batch may be smaller", minimum=_BATCH_SIZE
    )
    num_frames: int = config_flags.setting(200, "frames per utterance", minimum=_FRAMES_PER_TOKEN)
    num_classes: int = config_flags.setting(1300, "number of classes: the tokens and the blank", minimum=10)
    rounds: int = config_flags.setting(5, "number of rounds that are timed", minimum=1)


def main(config: BenchmarkConfig) -> int:
    """Prints the table and the bars; returns 1 if a bar is missed."""
    machine.check("ctc_beam_decoder", "ctc-beam-decoder")
    log_probs = make_posteriors(config)
    one, batches = (
        build_ours(config.num_classes, limit) for limit in (1.0, config_lib.DecodeConfig().skipped_blank)
    )
    sides = {
        "ours, one by one, all frames": lambda: [text for each in log_probs for text in one(each[None])],
        "ours, batches of 16": lambda: [
            text
            for start in range(0, len(log_probs), _BATCH_SIZE)
            for text in batches(log_probs[start:][:_BATCH_SIZE])
        ],
        **{
            name: build_peer(package, config.num_classes, log_probs)
            for name, package in _PEERS.items()
            if importlib.util.find_spec(package)  # pyctcdecode does not support every Python
        },
    }
    return bars.show(time_sides(sides, len(log_probs), config.rounds))


def make_posteriors(config: BenchmarkConfig) -> np.ndarray:
    """Returns log probabilities, float32 [num_utterances, num_frames, num_classes]; the blank is last."""
    rng = np.random.default_rng(1)
    logits = rng.normal(size=[config.num_utterances, config.num_frames, config.num_classes]).astype(
        np.float32
    )
    logits[..., -1] += rng.normal(14, 2, logits.shape[:2])
    for utterance in logits:
        for frame in range(2, config.num_frames, _FRAMES_PER_TOKEN):
            likely = rng.choice(config.num_classes - 1, 4, replace=False)
            utterance[frame, likely] += 14 + rng.normal(0, 2, 4) + [3, 0, -1, -2]
            utterance[frame, -1] -= 3
    return logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))


def build_ours(num_classes: int, skipped_blank: float) -> Callable[[np.ndarray], list[str]]:
    """Returns a function that decodes log probabilities [batch, num_frames, num_classes] to texts."""
    config = config_lib.DecodeConfig(beam_width=_BEAM_WIDTH, skipped_blank=skipped_blank)
    with tf.Graph().as_default() as graph:
        log_probs = tf.compat.v1.placeholder(tf.float32, [None, None, num_classes])
        num_frames = tf.fill([tf.shape(log_probs)[0]], tf.shape(log_probs)[1])
        found = decoders.DECODERS[config.decoding](config, log_probs, num_frames)
        best = found.best()
    threads = dict.fromkeys(
        ("intra_op_parallelism_threads", "inter_op_parallelism_threads"), machine.NUM_CORES
    )
    session = tf.compat.v1.Session(graph=graph, config=tf.compat.v1.ConfigProto(**threads))

    def decode(batch):
        rows = zip(*session.run(best, {log_probs: batch}))
        return ["".join(map(_letter, ids[:count])) for ids, count in rows]

    return decode


def build_peer(package: str, num_classes: int, log_probs: np.ndarray) -> Callable[[], list[str]]:
    """Returns a function that decodes all utterances with a peer; both peers have the same interface."""
    labels = [*map(_letter, range(num_classes - 1)), ""]
    decoder = importlib.import_module(package).build_ctcdecoder(labels)
    return lambda: [decoder.decode(each, beam_width=_BEAM_WIDTH) for each in log_probs]


def _letter(token_id: int) -> str:
    """Returns a hanzi that stands for a token, because the peers output characters."""
    return chr(0x4E00 + token_id)


def time_sides(sides, num_utterances: int, rounds: int) -> list[bars.Bar]:
    """Times the sides in turns, and prints the table."""
    texts = {name: run() for name, run in sides.items()}
    seconds = comparison.time_in_turns(sides, rounds)
    ours, batches, *peers = sides
    print(f"{'side':30}{'ms':>8}{'utterances/s':>14}{'same text as ours':>19}")
    for name, taken in seconds.items():
        median = statistics.median(taken) / num_utterances
        same = np.mean([one == other for one, other in zip(texts[name], texts[ours])])
        print(f"{name:30}{1e3 * median:8.1f}{1 / median:14.0f}{100 * same:17.0f} %")
    milliseconds = 1e3 * statistics.median(seconds[ours]) / num_utterances
    per_second = num_utterances / statistics.median(seconds[batches])
    found = [
        bars.Bar("one utterance, milliseconds", milliseconds, maximum=_MAX_MILLISECONDS),
        bars.Bar("batches of 16, utterances a second", per_second, minimum=_MIN_UTTERANCES),
    ]
    for peer in peers:
        faster = bars.ratio(seconds[peer], seconds[batches])
        found.append(bars.Bar(f"batches of 16, times as fast as {peer}", faster, minimum=1))
    return found


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
