"""Times the parts of recognition on one core and on two, beside the same encoder exported from PyTorch.

    python -m pip install -r benchmarks/requirements.txt
    python -m benchmarks.real_time

Recordings are processed one at a time, in turns, in a separate process for each number of cores. Ours is the
SavedModel's graph from samples to the n best token sequences. The peer has the same weights, traced and
frozen by torch.jit, computes log-mel with kaldi-native-fbank, and decodes greedily. The real-time factor is
seconds of computing per second of audio, as the median over the rounds. The model is that of
flags/aishell1/acoustic.flags with random weights, and the recording is noise, so the beam search has more to
do than for speech.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping

from benchmarks import comparison, machine

machine.load_libraries()

import numpy as np

from benchmarks.real_time import ours as real_time_ours
from tfrecord_builder.program import config_flags, program

_PARTS = ("frontend", "encoder", "decoding")


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The recording, and how often it is recognised."""

    seconds: float = config_flags.setting(5.0, "seconds of noise", positive=True)
    num_cores: int = config_flags.setting(0, "number of cores; 0 for one, then two", minimum=0, maximum=2)
    rounds: int = config_flags.setting(20, "number of rounds that are timed", minimum=1)


def main(config: BenchmarkConfig) -> int:
    """Prints a table for each number of cores; returns 1 if a table cannot be measured."""
    machine.check("torch", "PyTorch")
    machine.check("kaldi_native_fbank", "kaldi-native-fbank")
    return machine.run_on_cores("benchmarks.real_time", config, _measure)


def _measure(config):
    sides = make_sides(config)
    show(time_parts(sides, config.rounds), sides["ours"].seconds, config.num_cores)
    return 0


def make_sides(config: BenchmarkConfig) -> dict:
    """Returns our recogniser and PyTorch's, keyed by name, with the same weights."""
    import torch

    from benchmarks.real_time import peer as real_time_torch

    torch.set_num_threads(max(1, config.num_cores))
    model = real_time_ours.make_model()
    count = round(config.seconds * model.config.frontend.sample_rate)
    waveform = np.random.default_rng(0).normal(0, 0.1, count).astype(np.float32)
    ours = real_time_ours.Recogniser(model, waveform)
    peer = real_time_torch.Recogniser(model, ours.weights(), waveform, ours.frontend(), ours.encoder())
    return {"ours": ours, "PyTorch": peer}


def time_parts(sides: Mapping, rounds: int) -> dict[str, dict[str, float]]:
    """Returns the median seconds of the parts of each side, in turns.

    The time of a part is the run up to the end of the part, minus the run up to the previous part.
    """
    loops: dict[str, Callable[[], object]] = {
        f"{name} {part}": getattr(side, part) for name, side in sides.items() for part in _PARTS
    }
    taken = comparison.time_in_turns(loops, rounds)
    medians = {name: statistics.median(values) for name, values in taken.items()}
    found = {}
    for name in sides:
        ends = [medians[f"{name} {part}"] for part in _PARTS]
        found[name] = {part: end - start for part, start, end in zip(_PARTS, [0.0, *ends], ends)}
    return found


def show(seconds: Mapping[str, Mapping[str, float]], audio_seconds: float, num_cores: int) -> None:
    """Prints the table."""
    print(f"{audio_seconds:.2f} s of audio, {num_cores} core{'s' if num_cores > 1 else ''}")
    print(f"{'side':10}{'real-time factor':>18}" + "".join(f"{part:>18}" for part in _PARTS))
    for name, parts in seconds.items():
        total = sum(parts.values())
        shares = (f"{1000 * value:.1f} ms {value / total:.0%}" for value in parts.values())
        print(f"{name:10}{total / audio_seconds:18.4f}" + "".join(f"{share:>18}" for share in shares))


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
