"""Times chunks of streams beside sherpa-onnx, and beside the whole utterance with the same weights.

    python -m pip install -r benchmarks/requirements.txt
    python -m benchmarks.streaming

First, on one core, one stream of ours, one stream of sherpa-onnx with a Conformer of the same size, and the
whole recording at once are timed in turns; then 64 streams of ours are timed together on two cores. Ours
computes log-mel, encoder, beam search and texts; sherpa-onnx computes log-mel, encoder and the greedy path.
Weights are random, and the recording is noise, so the beam search has more to do than for speech.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time

from benchmarks import bars, machine

machine.load_libraries()

import numpy as np

from benchmarks.streaming import ours as streaming_ours
from tfrecord_builder.program import config_flags, program

_NUM_STREAMS = 64
_MAX_CHUNK_MS = 16.0  # a twentieth of a chunk's audio


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The recording, and how often it is recognised."""

    seconds: float = config_flags.setting(5.0, "seconds of noise", positive=True)
    num_cores: int = config_flags.setting(0, "number of cores; 0 for one, then two", minimum=0, maximum=2)
    rounds: int = config_flags.setting(10, "number of times that the recording is recognised", minimum=1)


def main(config: BenchmarkConfig) -> int:
    """Prints the times and bars; returns 1 if a bar is missed or nothing can be measured."""
    machine.check("sherpa_onnx", "sherpa-onnx")
    machine.check("onnx", "ONNX")
    machine.check("torch", "PyTorch")
    return machine.run_on_cores("benchmarks.streaming", config, _measure)


def _measure(config):
    return bars.show((time_one if config.num_cores == 1 else time_many)(config))


def _make(config, path):
    """Returns the model, float32 [num_samples] of noise, and the samples of a chunk."""
    model = streaming_ours.make_model(path)
    rate, settings = model.config.frontend.sample_rate, model.config
    waveform = np.random.default_rng(0).normal(0, 0.1, round(config.seconds * rate)).astype(np.float32)
    return model, waveform, settings.acoustic.chunk_frames * settings.frontend.hop_samples


def time_one(config: BenchmarkConfig) -> list[bars.Bar]:
    """Times one stream of each side and the whole recording; prints milliseconds."""
    from benchmarks.streaming import peer as streaming_peer

    with tempfile.TemporaryDirectory() as path:
        model, waveform, size = _make(config, path)
        ours = streaming_ours.Streams(model, waveform, 1)
        settings = model.config.acoustic, model.config.frontend, model.tokens.size
        peer = streaming_peer.Recogniser(*settings, path)
    taken: dict[str, list[float]] = {"ours": [], "sherpa-onnx": [], "the whole, at its end": []}
    for number in range(config.rounds + 1):  # the first round allocates memory
        parts = time_chunks(ours, waveform, size), time_chunks(peer, waveform, size), [_time(ours.hear_whole)]
        for values, part in zip(taken.values(), parts):
            values += part if number else []
    milliseconds = 1000 * size / model.config.frontend.sample_rate
    print(f"{config.seconds:g} s of audio, chunks of {milliseconds:g} ms, one core")
    for name, values in taken.items():
        show(name, values)
    chunk, other, whole = (float(np.median(values)) for values in taken.values())
    print(f"a chunk takes {chunk / other:.2f} times what it takes sherpa-onnx")
    print(f"all chunks take {chunk * waveform.size / size / whole:.2f} times what the whole takes")
    return [bars.Bar("milliseconds for each chunk", 1000 * chunk, maximum=_MAX_CHUNK_MS)]


def time_many(config: BenchmarkConfig) -> list[bars.Bar]:
    """Times a chunk of 64 streams at once; prints milliseconds."""
    with tempfile.TemporaryDirectory() as path:
        model, waveform, size = _make(config, path)
        ours = streaming_ours.Streams(model, waveform, _NUM_STREAMS)
    taken = [value for _ in range(config.rounds + 1) for value in time_chunks(ours, waveform, size)]
    taken = taken[len(taken) // (config.rounds + 1) :]
    print(f"{_NUM_STREAMS} streams at once, two cores")
    show("ours", taken)
    share = float(np.percentile(taken, 99)) / (size / model.config.frontend.sample_rate)
    return [bars.Bar(f"of the time in which {_NUM_STREAMS} streams speak a chunk, 99 %", share, maximum=1.0)]


def time_chunks(side, waveform: np.ndarray, size: int) -> list[float]:
    """Returns the seconds of each whole chunk of a new stream of a side (`restart`, `hear`)."""
    side.restart()
    starts = range(0, waveform.size - size + 1, size)
    return [_time(lambda start=start: side.hear(waveform[start : start + size])) for start in starts]


def show(name: str, seconds: list[float]) -> None:
    """Prints median and 99th percentile."""
    median, most = (1000 * float(np.percentile(seconds, share)) for share in (50, 99))
    print(f"{name:24}{median:8.1f} ms median{most:8.1f} ms 99 %")


def _time(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
