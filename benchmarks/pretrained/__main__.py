"""Times training on Whisper's encoder, and `encode`, beside the same in PyTorch, and prints ratios.

    python -m pip install -r benchmarks/requirements.txt
    python -m benchmarks.pretrained
    python -m benchmarks.pretrained --num_frames=1000 --batch_size=4 --rounds=40

The model is that of flags/whisper/acoustic.flags, but with log-mel and without dropout, whose random numbers
PyTorch does not share. The encoder has the size of whisper-base and random weights, which do not affect its
speed; it is written and read in the published format. The benchmark times in turns

    stored    the training step on outputs of the frozen encoder, with two threads
    in graph  the training step with the frozen encoder in the graph, with two threads
    encode    the session of estimator_asr.encode, including the parsing of its records, with one thread

on both sides, which have the same weights and batch. Losses, gradient norms and outputs are compared first.
The batch has as many utterances of 1.7 s as in training on an hour of words; `encode` also gets a batch of
utterances of 10 s. Times are medians over the rounds, and ratios are medians of the rounds' ratios. A missed
bar is marked FAIL, and the exit code is then 1. Other work on these cores slows PyTorch more than TensorFlow.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import tempfile
from collections.abc import Mapping

from benchmarks import bars, comparison, machine

machine.load_libraries()

import numpy as np

from benchmarks.pretrained import ours as pretrained_ours
from benchmarks.pretrained import random_whisper
from benchmarks.train_step import work as train_step_work
from estimator_asr.experiment import config as config_lib
from tfrecord_builder.program import config_flags, program

_SECONDS_PER_FRAME = 0.01
_LONG_FRAMES = 1000
_MAX_RATIO = 0.9


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The models, the batch, and how often it is timed."""

    whisper_layers: int = config_flags.setting(6, "blocks of the encoder", minimum=1)
    whisper_units: int = config_flags.setting(512, "width of the encoder, a multiple of 64", minimum=64)
    encoder_layers: int = config_flags.setting(4, "Conformer blocks on the encoder", minimum=1)
    encoder_units: int = config_flags.setting(192, "width of the Conformer blocks", positive=True)
    batch_size: int = config_flags.setting(23, "utterances", minimum=1)
    num_frames: int = config_flags.setting(170, "log-mel frames of the longest utterance", minimum=16)
    max_tokens: int = config_flags.setting(8, "labels of the longest utterance", minimum=1)
    num_classes: int = config_flags.setting(1676, "number of tokens plus the blank", minimum=3)
    rounds: int = config_flags.setting(20, "number of rounds that are timed", minimum=1)

    def acoustic(self, applied) -> config_lib.AcousticConfig:
        """Returns the model's settings; the remaining settings are the defaults."""
        return config_lib.AcousticConfig(
            encoder="whisper",
            encoder_layers=self.encoder_layers,
            encoder_units=self.encoder_units,
            decoder_layers=0,
            acoustic_dropout=0.0,
            pretrained=applied,
        )

    def make_batch(self, num_frames: int, num_bins: int) -> train_step_work.Batch:
        """Returns a batch of about batch_size x self.num_frames log-mel frames.

        Args:
            num_frames: number of frames in the longest utterance, each with num_bins values.
        """
        frames = self.batch_size * self.num_frames
        size = self.batch_size if num_frames <= self.num_frames else max(1, frames // num_frames)
        return train_step_work.make_batch(
            size, num_frames, self.num_classes - 1, self.max_tokens, seed=1, num_bins=num_bins
        )


def main(config: BenchmarkConfig) -> int:
    """Prints the tables and the bars; returns 1 if a bar is missed."""
    machine.check("torch", "PyTorch")
    machine.use_graphs()
    with tempfile.TemporaryDirectory() as directory:
        sizes = random_whisper.make_sizes(config.whisper_layers, config.whisper_units)
        weights_dir = random_whisper.write(os.path.join(directory, "whisper"), sizes)
        found = compare_and_time_steps(config, weights_dir, directory)
        found += compare_and_time_encode(config, weights_dir)
    return bars.show(found)


def compare_and_time_steps(config: BenchmarkConfig, weights_dir: str, directory: str) -> list[bars.Bar]:
    """Compares and times both training steps of ours with PyTorch's, and prints the table."""
    sides = {
        "stored": make_step_sides(config, weights_dir, directory, reads_outputs=True),
        "in graph": make_step_sides(config, weights_dir, directory, reads_outputs=False),
    }
    found = []
    for name, pair in sides.items():
        print(name)
        found += comparison.compare(pair, f"{name}, ")
    loops = {(name, side): each.step for name, pair in sides.items() for side, each in pair.items()}
    seconds = comparison.time_in_turns(loops, config.rounds)
    audio_seconds = config.make_batch(config.num_frames, 1).num_frames.sum() * _SECONDS_PER_FRAME
    return found + _show(seconds, {name: audio_seconds for name in sides}, "training step, ")


def make_step_sides(config: BenchmarkConfig, weights_dir: str, directory: str, reads_outputs: bool) -> dict:
    """Returns our training step and PyTorch's, keyed by name, with the same weights.

    Args:
        reads_outputs: True if the batch contains outputs of the encoder, False for log-mel.
    """
    import torch

    from benchmarks.pretrained import peer as pretrained_torch

    torch.set_num_threads(machine.NUM_CORES)
    applied = pretrained_ours.read_applied(weights_dir)
    acoustic, num_tokens = config.acoustic(applied), config.num_classes - 1
    model = pretrained_ours.make_model(acoustic, applied, reads_outputs, num_tokens, directory)
    if reads_outputs:
        batch = config.make_batch(-(-config.num_frames // applied.encoder.subsampling), applied.num_bins)
    else:
        batch = config.make_batch(config.num_frames, applied.encoder.num_mel_bins)
    encoder_dir = None if reads_outputs else weights_dir
    ours = pretrained_ours.open_step(model, batch, encoder_dir)
    peer = pretrained_torch.make_trainer(model.config, ours.weights(), batch, applied, encoder_dir)
    return {"ours": ours, "PyTorch": peer}


def compare_and_time_encode(config: BenchmarkConfig, weights_dir: str) -> list[bars.Bar]:
    """Compares and times our encoder with PyTorch's on short and on long utterances, and prints the table."""
    import torch

    torch.set_num_threads(1)
    applied = pretrained_ours.read_applied(weights_dir)
    found, loops, audio_seconds = [], {}, {}
    for num_frames in sorted({config.num_frames, _LONG_FRAMES}):
        name = f"{num_frames * _SECONDS_PER_FRAME:g} s"
        batch = config.make_batch(num_frames, applied.encoder.num_mel_bins)
        sides = make_encode_sides(weights_dir, batch)
        found.append(compare_outputs(sides, f"encode, {name}, "))
        loops.update({(name, side): each.encode for side, each in sides.items()})
        audio_seconds[name] = batch.num_frames.sum() * _SECONDS_PER_FRAME
    return found + _show(comparison.time_in_turns(loops, config.rounds), audio_seconds, "encode, ")


def make_encode_sides(weights_dir: str, batch: train_step_work.Batch) -> dict:
    """Returns our encoder and PyTorch's, keyed by name, each with a batch of log-mel."""
    from benchmarks.pretrained import peer as pretrained_torch

    applied = pretrained_ours.read_applied(weights_dir)
    network = pretrained_torch.read(weights_dir, applied)
    return {
        "ours": pretrained_ours.Encoder(weights_dir, applied, batch),
        "PyTorch": pretrained_torch.FrozenEncoder(network, batch),
    }


def compare_outputs(sides: Mapping, name: str) -> bars.Bar:
    """Encodes on both sides; the difference is relative to the outputs, both as root mean squares."""
    ours, peers = (
        np.concatenate([row.astype(np.float32) for row in side.encode()]) for side in sides.values()
    )
    apart = np.sqrt(np.mean(np.square(ours - peers)) / np.mean(np.square(peers)))
    return bars.Bar(
        f"{name}outputs, apart by millionths", 1e6 * float(apart), maximum=comparison.MAX_MILLIONTHS
    )


def _show(seconds: Mapping, audio_seconds: Mapping, what: str) -> list[bars.Bar]:
    """Prints the times of both sides' loops; returns a bar for each pair."""
    print(f"{'loop':34}{'seconds':>9}{'x real time':>13}")
    for (name, side), taken in seconds.items():
        median = statistics.median(taken)
        print(f"{what + name + ', ' + side:34}{median:9.3f}{audio_seconds[name] / median:13,.0f}")
    return [
        bars.Bar(
            f"{what}{name}, times what PyTorch takes",
            bars.ratio(seconds[name, "ours"], seconds[name, "PyTorch"]),
            maximum=_MAX_RATIO,
        )
        for name in audio_seconds
    ]


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
