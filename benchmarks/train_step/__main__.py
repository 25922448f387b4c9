"""Times the acoustic training step beside the same Conformer in PyTorch, and prints ratios.

    python -m pip install -r benchmarks/requirements.txt
    python -m benchmarks.train_step
    python -m benchmarks.train_step --encoder_units=192 --rounds=40

Both sides have the same weights, batch, losses, clipping and Adam, and two cores. Loss and gradient norm are
compared first. Then the following run in turns:

    ours      the step of the model_fn, run by a plain session
    PyTorch   the same step with torch.nn, fused attention and fused Adam
    matmul    products of 2048 x 2048 float32 matrices, by each of the two

Finally, the Estimator and a plain session run steps in turns; the median is a step that writes no summary,
like 49 of 50 steps. Times are medians over the rounds, and ratios are medians of the rounds' ratios. The
fraction of the matmul rate counts only matrix products and convolutions, relative to the faster of the two. A
missed bar is marked FAIL, and the exit code is then 1. Other work on these cores slows PyTorch more than
TensorFlow, because PyTorch's threads wait for each other after every operation, so only numbers from an idle
machine count.
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from collections.abc import Mapping

from benchmarks import bars, comparison, machine

machine.load_libraries()

from benchmarks.train_step import ours as train_step_ours
from benchmarks.train_step import work
from estimator_asr.experiment import config as config_lib
from tfrecord_builder.program import config_flags, program

_MATMUL_OPERATIONS = 2 * 2048**3


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model, the batch, and how often it is timed."""

    encoder_layers: int = config_flags.setting(4, "blocks of the conformer", minimum=1)
    encoder_units: int = config_flags.setting(256, "width of encoder and decoder", positive=True)
    dropout: float = config_flags.setting(0.0, "dropout rate; losses are compared only if it is 0", minimum=0)
    batch_size: int = config_flags.setting(32, "utterances", minimum=1)
    num_frames: int = config_flags.setting(200, "frames of the longest utterance", minimum=8)
    max_tokens: int = config_flags.setting(20, "labels of the longest utterance", minimum=1)
    num_classes: int = config_flags.setting(1300, "number of tokens plus the blank", minimum=3)
    rounds: int = config_flags.setting(20, "number of timed steps per side", minimum=1)
    estimator_steps: int = config_flags.setting(50, "number of timed steps of the Estimator", minimum=1)

    def acoustic(self) -> config_lib.AcousticConfig:
        """Returns the model's settings; the remaining settings are the defaults."""
        return config_lib.AcousticConfig(
            encoder_layers=self.encoder_layers,
            encoder_units=self.encoder_units,
            acoustic_dropout=self.dropout,
        )


def main(config: BenchmarkConfig) -> int:
    """Prints the table and the bars; returns 1 if a bar is missed."""
    machine.check("torch", "PyTorch")
    machine.use_graphs()
    batch = work.make_batch(
        config.batch_size, config.num_frames, config.num_classes - 1, config.max_tokens, seed=1
    )
    with tempfile.TemporaryDirectory() as directory:
        model = train_step_ours.make_model(config.acoustic(), config.num_classes - 1, directory)
        sides = make_sides(model, batch)
        found = [] if config.dropout else comparison.compare(sides)
        found += time_sides(sides, config, batch)
        found += time_estimator(model, batch, config.estimator_steps)
    return bars.show(found)


def make_sides(model, batch: work.Batch) -> dict:
    """Returns ours and PyTorch's step by name, with the same weights."""
    import torch

    from benchmarks.train_step import peer as train_step_torch

    torch.set_num_threads(machine.NUM_CORES)
    ours = train_step_ours.open_session(model, batch)
    network = train_step_torch.Acoustic(model.config.acoustic, model.num_classes, batch.fbank.shape[2])
    inputs = train_step_torch.inputs_of(batch)
    peer = train_step_torch.Trainer(network, model.config.optimizer, ours.weights(), inputs)
    return {"ours": ours, "PyTorch": peer}


def time_sides(sides: Mapping, config: BenchmarkConfig, batch: work.Batch) -> list[bars.Bar]:
    """Times both sides and the products of large matrices in turns, and prints the table."""
    loops = {name: side.step for name, side in sides.items()}
    loops.update({f"matmul, {name}": side.multiply for name, side in sides.items()})
    seconds = comparison.time_in_turns(loops, config.rounds)
    operations = work.count_operations(config.acoustic(), batch, config.num_classes)
    rates = {name: _MATMUL_OPERATIONS / statistics.median(seconds[f"matmul, {name}"]) for name in sides}
    print(f"{operations / 1e9:.1f} billion operations per step, {int(batch.num_frames.sum()):,} frames")
    print(f"{'loop':18}{'seconds':>9}{'frames/s':>10}{'billion/s':>11}{'of matmul':>11}")
    for name in sides:
        _print_row(name, statistics.median(seconds[name]), operations, batch, max(rates.values()))
    for name, rate in rates.items():
        print(f"{'matmul, ' + name:18}{_MATMUL_OPERATIONS / rate:9.3f}{rate / 1e9:21.0f}")
    best = [min(pair) for pair in zip(*(seconds[f"matmul, {name}"] for name in sides))]
    share = bars.ratio(best, seconds["ours"]) * operations / _MATMUL_OPERATIONS
    return [
        bars.Bar(
            "step, times what PyTorch takes", bars.ratio(seconds["ours"], seconds["PyTorch"]), maximum=1
        ),
        bars.Bar("step, per cent of the matmul rate", 100 * share, minimum=45),
    ]


def _print_row(name, seconds, operations, batch, rate):
    print(f"{name:18}{seconds:9.3f}{batch.num_frames.sum() / seconds:10,.0f}", end="")
    print(f"{operations / seconds / 1e9:11.0f}{operations / seconds / rate:11.1%}")


def time_estimator(model, batch: work.Batch, num_steps: int) -> list[bars.Bar]:
    """Times the Estimator's steps beside bare ones of the same session, and prints both."""
    estimator, bare = train_step_ours.time_estimator(model, batch, num_steps)
    medians = statistics.median(estimator), statistics.median(bare)
    print("Estimator {:.3f} s a step, a plain session in turns with it {:.3f} s".format(*medians))
    overhead = 100 * (bars.ratio(estimator, bare) - 1)
    return [bars.Bar("overhead of the Estimator, per cent of a step", overhead, maximum=3)]


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
