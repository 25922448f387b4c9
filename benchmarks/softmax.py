"""Trains the attention decoder to predict the next subword with each --softmax; prints time and loss.

    python -m benchmarks.softmax --text_dir=TEXT

The acoustic model's decoder gets no audio here; it attends to a single frame of zeros. All sides start with
the same weights, use the same batches of sentences and Adam, and run their steps in turns, in one process on
two cores. Times are medians of the CPU time per step, and ratios are medians of the ratios per step, so that
other work on the machine matters less. The loss is that of the full softmax, per subword, on dev sentences
after the same number of steps.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Sequence

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import numpy as np
import tensorflow as tf

from benchmarks import bars, machine
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import training_config
from estimator_asr.models import acoustic, encoders, losses
from estimator_asr.training.distributed import strategies
from estimator_asr.training.optimizer import optimization
from tfrecord_builder.data import vocabulary
from tfrecord_builder.labels import subwords
from tfrecord_builder.program import config_flags, program

_MAX_LENGTH = 40  # subwords per sentence; longer sentences are left out
_DEV_SENTENCES = 500
_LEARNING_RATE = 0.001


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The text, the decoder and its training."""

    text_dir: str = config_flags.setting(
        "", "directory with train.tsv and dev.tsv; their first column has sentences", required=True
    )
    vocabulary_size: int = config_flags.setting(8000, "number of subwords", positive=True)
    num_sampled: tuple[int, ...] = config_flags.setting((64, 256, 1024), "sampled classes", positive=True)
    units: int = config_flags.setting(256, "width of the decoder", positive=True)
    batch_size: int = config_flags.setting(64, "sentences per step", positive=True)
    steps: int = config_flags.setting(1000, "steps per side", positive=True)
    evaluations: int = config_flags.setting(4, "number of evaluations, evenly spaced", positive=True)

    def decoder(self) -> config_lib.AcousticConfig:
        """Returns the decoder's settings; the remaining settings are the defaults."""
        return config_lib.AcousticConfig(
            encoder_units=self.units, encoder_inner_units=2 * self.units, label_smoothing=0.0
        )


@dataclasses.dataclass(frozen=True)
class Text:
    """Sentences as subword ids, and all classes in order of their frequency in train."""

    train: list[list[int]]
    dev: list[list[int]]
    by_frequency: list[int]

    @property
    def num_classes(self) -> int:
        return len(self.by_frequency)


class Side:
    """A decoder in its own session, trained with one loss."""

    def __init__(self, config: config_lib.AcousticConfig, softmax: str, num_sampled: int, text: Text):
        with tf.Graph().as_default() as graph:
            tf.compat.v1.set_random_seed(1)
            self._ids = tf.compat.v1.placeholder(tf.int32, [None, None])
            self._seed = tf.compat.v1.placeholder(tf.int64, [2])
            trained = self._build(config, text, self._seed)
            with tf.compat.v1.variable_scope("", reuse=True):
                full = self._full_loss(*self._build(config, text, None))
            loss = self._full_loss(*trained)
            if softmax != config_lib.FULL:
                probabilities = losses.log_uniform(np.array(text.by_frequency))
                sample = losses.draw(probabilities, num_sampled, self._seed)
                sums = losses.SAMPLED[softmax](*trained, sample)
                loss = tf.reduce_sum(sums) / tf.reduce_sum(trained[-1])
            step = tf.compat.v1.train.create_global_step()
            optimizer = optimization.build_optimizer(
                training_config.OptimizerConfig(), tf.constant(_LEARNING_RATE)
            )
            update = optimization.Minimizer(optimizer, 5.0, step).minimize(loss)
            initialise = tf.compat.v1.global_variables_initializer()
        self._session = tf.compat.v1.Session(
            graph=graph, config=strategies.session_config(training_config.TrainConfig())
        )
        self._session.run(initialise)
        self._step = self._session.make_callable(update.train_op, [self._ids, self._seed])
        self._evaluate = self._session.make_callable(full, [self._ids])

    def step(self, ids: np.ndarray, seed: np.ndarray) -> tuple[float, float]:
        """Runs one step; returns its CPU seconds and its wall-clock seconds."""
        starts = time.process_time(), time.perf_counter()
        self._step(ids, seed)
        return time.process_time() - starts[0], time.perf_counter() - starts[1]

    def loss(self, batches: Sequence[np.ndarray]) -> float:
        """Returns the cross-entropy per subword over batches."""
        counts = [np.count_nonzero(ids >= 0) + len(ids) for ids in batches]
        return float(np.average([self._evaluate(ids) for ids in batches], weights=counts))

    def _build(self, config, text, seed):
        num_tokens = tf.reduce_sum(tf.cast(self._ids >= 0, tf.int32), axis=1)
        frame = tf.zeros([tf.shape(self._ids)[0], 1, config.encoder_units])
        encoding = encoders.Encoding(frame, tf.ones_like(num_tokens), tf.ones_like(frame[..., 0]))
        previous = acoustic.shift_right(self._ids, num_tokens, text.num_classes - 1)
        scorer, _ = acoustic.decode(config, previous, encoding, text.num_classes, None, seed)
        return scorer, *acoustic.decoder_targets(self._ids, num_tokens, text.num_classes - 1)

    def _full_loss(self, scorer, targets, weights):
        sums = losses.cross_entropy(acoustic.classify(scorer), targets, weights)
        return tf.reduce_sum(sums) / tf.reduce_sum(weights)


def main(config: BenchmarkConfig) -> int:
    """Prints the table."""
    machine.check_cores()
    machine.use_graphs()
    text = read_text(config.text_dir, config.vocabulary_size)
    print(f"{text.num_classes} classes, {len(text.train)} sentences, {config.batch_size} per step")
    choices = [(config_lib.FULL, 0)]
    choices += [(name, count) for name in losses.SAMPLED for count in config.num_sampled]
    sides = {
        f"{name} {count or ''}".strip(): Side(config.decoder(), name, count, text) for name, count in choices
    }
    run(sides, text, config)
    return 0


def read_text(directory: str, vocabulary_size: int) -> Text:
    """Reads the sentences, and learns the subwords from the train sentences."""
    sentences = {name: _read_column(os.path.join(directory, f"{name}.tsv")) for name in ("train", "dev")}
    model = subwords.SubwordModel(subwords.train(sentences["train"], vocabulary_size))
    known = vocabulary.Vocabulary.build([model.list_subwords()])
    ids = {name: [known.encode(model.encode(each)) for each in rows] for name, rows in sentences.items()}
    ids = {name: [row for row in rows if 0 < len(row) <= _MAX_LENGTH] for name, rows in ids.items()}
    counts = np.bincount(np.concatenate(ids["train"]), minlength=known.size)
    by_frequency = [known.blank_id, *np.argsort(-counts, kind="stable").tolist()]
    return Text(ids["train"], ids["dev"][:_DEV_SENTENCES], by_frequency)


def run(sides: dict[str, Side], text: Text, config: BenchmarkConfig) -> None:
    """Trains all sides in turns, and prints each side's loss and times at regular steps."""
    rng, seconds = np.random.default_rng(1), {name: [] for name in sides}
    size, every = config.batch_size, max(1, config.steps // config.evaluations)
    dev = [_pad(text.dev[begin : begin + size]) for begin in range(0, len(text.dev), size)]
    print(f"{'softmax':14}{'step':>6}{'loss':>8}{'CPU ms':>8}{'of full':>9}{'of clock':>9}", flush=True)
    for number in range(1, config.steps + 1):
        ids = _pad([text.train[row] for row in rng.integers(0, len(text.train), size)])
        for name, side in sides.items():
            seconds[name].append(side.step(ids, np.int64([1, number])))
        if number % every == 0:
            for name, side in sides.items():
                _print_row(name, number, side.loss(dev), seconds)


def _print_row(name, number, loss, seconds):
    cpu, clock = zip(*seconds[name][1:])  # the first step allocates memory
    full_cpu, full_clock = zip(*seconds[config_lib.FULL][1:])
    print(f"{name:14}{number:6}{loss:8.3f}{1000 * statistics.median(cpu):8.1f}", end="")
    print(f"{bars.ratio(cpu, full_cpu):9.2f}{bars.ratio(clock, full_clock):9.2f}", flush=True)


def _read_column(path):
    with open(path, encoding="utf-8") as file:
        return [line.split("\t")[0] for line in file.read().splitlines()[1:]]


def _pad(rows):
    longest = max(map(len, rows))
    return np.int32([[*row, *[-1] * (longest - len(row))] for row in rows])


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
