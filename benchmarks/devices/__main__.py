"""Times recognition without TensorFlow, by LiteRT and ONNX Runtime, beside the SavedModel and sherpa-onnx.

    python -m pip install -r benchmarks/requirements.txt
    python -m benchmarks.devices
    python -m benchmarks.devices --saved_model=EXPORT/VERSION --audio=SPEECH.wav

Everything runs on one core with one thread, one recording at a time, in turns. Each side turns samples into
text. The real-time factor is seconds of computing per second of audio. Medians over the rounds are printed
for the whole recognition and for the acoustic graph alone, from samples to log probabilities; the difference
is the search. A cold start is a whole run of `python -m estimator_asr_runtime --model=DIR one.wav`, also in
turns. A MB is a million bytes.

The model is that of flags/manifest/acoustic.flags with random weights, in float32 and int8, and the recording
is noise, so the search has more to do than for speech. The peer is a WeNet-style Conformer of the same size,
which decodes greedily; if it is not installed, the peer is left out. With --saved_model, that version is
timed with the formats that it contains, without a peer. A missed bar is marked FAIL, and the exit code is
then 1.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from typing import Optional

from benchmarks import bars, comparison, machine

machine.load_libraries()

import numpy as np
import soundfile

from benchmarks.devices import ours as devices_ours
from benchmarks.devices import starts
from benchmarks.transcription import ours as transcription_ours
from estimator_asr.experiment import config as config_lib
from estimator_asr.exporting.saved_model import export_info, recogniser
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.program import config_flags, program

_SAVED_MODEL, _PEER = "SavedModel", "sherpa-onnx"
_PEER_PACKAGES = ("sherpa_onnx", "onnx", "torch")
_TIMES_AS_FAST, _SMALL_TIMES_AS_FAST = 1.0, 1.5  # float32 and int8, as the SavedModel; int8 as float32 too
_MAX_START_SECONDS, _MAX_PEAK_MB, _MAX_SMALL_MB = 1.0, 250, 6

Seconds = Mapping[str, Sequence[float]]  # side -> seconds of each round


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model, the recording, and how often it is recognised."""

    num_cores = 1  # no setting

    saved_model: Optional[str] = config_flags.setting(
        None, "export directory, or one version in it; if empty, a random model is exported"
    )
    audio: Optional[str] = config_flags.setting(None, "audio file, used from its start; if empty, noise")
    seconds: float = config_flags.setting(5.0, "seconds of audio", positive=True)
    rounds: int = config_flags.setting(20, "number of times that the recording is recognised", minimum=1)
    starts: int = config_flags.setting(5, "cold starts of each format", minimum=1)
    encoder_layers: int = config_flags.setting(4, "blocks of the random model", minimum=1)
    encoder_units: int = config_flags.setting(192, "width of the random model", positive=True)


@dataclasses.dataclass(frozen=True)
class Export:
    """A version, its formats by name and weights ("onnx int8"), and the peer if there is one."""

    version_dir: str
    formats: Mapping[str, str]
    peer: object = None
    peer_mb: float = 0.0
    why_no_peer: str = ""


def main(config: BenchmarkConfig) -> int:
    """Prints the tables and bars; returns 1 if a bar is missed."""
    return machine.run_on_cores("benchmarks.devices", config, _measure)


def _measure(config):
    with tempfile.TemporaryDirectory() as directory:
        exported = make_or_find(config, directory)
        rate = export_info.load(exported.version_dir).frontend.sample_rate
        waveform = read_or_make(config, rate)
        path = os.path.join(directory, "one.wav")
        soundfile.write(path, waveform, rate)
        seconds = time_sides(exported, waveform, rate, config.rounds)
        found = find_bars(seconds, time_starts(exported, path, config.starts), exported.formats)
    return bars.show(found)


def make_or_find(config: BenchmarkConfig, directory: str) -> Export:
    """Exports a random model and the peer's into a directory, or finds the formats of --saved_model."""
    if config.saved_model:
        version_dir = recogniser.find_version(os.path.abspath(config.saved_model))
        formats = devices_ours.find_formats([version_dir])
        if not formats:
            raise errors.UserError(
                f"{version_dir}: has neither {' nor '.join(devices_ours.FORMATS)}; export it "
                f"again with --format={','.join(devices_ours.FORMATS)}"
            )
        return Export(version_dir, formats, why_no_peer="not built for --saved_model")
    sizes = {"encoder_layers": config.encoder_layers, "encoder_units": config.encoder_units}
    acoustic = config_lib.AcousticConfig(**sizes)
    trained = devices_ours.make_model(acoustic, os.path.join(directory, "model"))
    exported = Export(*devices_ours.export(trained, directory))
    missing = [name for name in _PEER_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        why = f"{' and '.join(missing)} not installed, see benchmarks/requirements.txt"
        return dataclasses.replace(exported, why_no_peer=why)
    from benchmarks.devices import peer as devices_peer

    path = os.path.join(directory, "peer")
    os.makedirs(path)
    peer = devices_peer.Recogniser(trained.model, path)
    return dataclasses.replace(exported, peer=peer, peer_mb=devices_ours.find_mb(path))


def read_or_make(config: BenchmarkConfig, sample_rate: int) -> np.ndarray:
    """Returns float32 [num_samples]: the first seconds of --audio, or noise."""
    count = round(config.seconds * sample_rate)
    if config.audio:
        return audio_files.read_audio(config.audio, sample_rate)[:count]
    return np.random.default_rng(0).normal(0, 0.1, count).astype(np.float32)


def time_sides(
    exported: Export, waveform: np.ndarray, sample_rate: int, rounds: int
) -> dict[str, list[float]]:
    """Times all sides in turns, and prints the table; returns {side: seconds of each round}."""
    saved_model = transcription_ours.Transcriber(exported.version_dir)
    formats = {name: devices_ours.Format(path) for name, path in exported.formats.items()}
    sides: dict = {**formats, _PEER: exported.peer} if exported.peer else formats
    loops = {_SAVED_MODEL: lambda: saved_model.transcribe(waveform)}
    loops.update({name: lambda side=side: side.recognise(waveform) for name, side in sides.items()})
    graphs = {f"{name} graph": lambda side=side: side.run_graph(waveform) for name, side in formats.items()}
    taken = comparison.time_in_turns({**loops, **graphs}, rounds)
    seconds = waveform.size / sample_rate
    print(f"{seconds:.2f} s of audio, one core, medians of {rounds} rounds")
    print(f"{'side':16}{'real-time factor':>18}{'ms':>8}{'of it graph':>13}{'size in MB':>12}")
    for name in loops:
        median = statistics.median(taken[name])
        graph = f"{1000 * statistics.median(taken[f'{name} graph']):.1f}" if name in formats else ""
        row = f"{median / seconds:18.4f}{1000 * median:8.1f}{graph:>13}{_find_mb(exported, name):12.2f}"
        print(f"{name:16}{row}")
    if not exported.peer:
        print(f"{_PEER:16}{exported.why_no_peer}")
    return {name: taken[name] for name in loops}


def _find_mb(exported, name):
    if name == _PEER:
        return exported.peer_mb
    return devices_ours.find_mb(exported.formats.get(name, exported.version_dir))


def time_starts(exported: Export, path: str, count: int) -> dict[str, list[starts.Start]]:
    """Starts estimator_asr_runtime with each format in turns, and transcribe once; prints both times.

    Returns:
        The runs of each format, except the first run, which reads the files from the disk.
    """
    runs: dict[str, list[starts.Start]] = {name: [] for name in exported.formats}
    for number in range(count + 1):
        for name, directory in exported.formats.items():
            run = starts.measure("estimator_asr_runtime", f"--model={directory}", path)
            runs[name] += [run] if number else []
    transcribe = starts.measure("estimator_asr.transcribe", f"--saved_model={exported.version_dir}", path)
    print(f"\n{'cold start':16}{'best s':>10}{'median s':>10}{'peak MB':>10}")
    for name, each in {**runs, "transcribe, once": [transcribe]}.items():
        seconds = [run.seconds for run in each]
        print(f"{name:16}{min(seconds):10.2f}{statistics.median(seconds):10.2f}{_find_peak_mb(each):10.0f}")
    return runs


def find_bars(
    seconds: Seconds, runs: Mapping[str, Sequence[starts.Start]], formats: Mapping[str, str]
) -> list[bars.Bar]:
    """Returns the bars for the measurements.

    The better format counts for speed; the worse one counts for cold starts, memory and size.
    """
    exact, small = (
        {name: f"{name} {weights}" for name in devices_ours.FORMATS if f"{name} {weights}" in formats}
        for weights in devices_ours.WEIGHTS
    )
    speed, small_speed = (
        {side: bars.ratio(seconds[_SAVED_MODEL], seconds[side]) for side in sides.values()}
        for sides in (exact, small)
    )
    gain = {
        small[name]: bars.ratio(seconds[exact[name]], seconds[small[name]]) for name in exact if name in small
    }
    starts_taken = {name: statistics.median(run.seconds for run in each) for name, each in runs.items()}
    peaks = {name: _find_peak_mb(each) for name, each in runs.items()}
    sizes = {side: devices_ours.find_mb(formats[side]) for side in small.values()}
    return [
        *_highest("times as fast as the SavedModel", speed, minimum=_TIMES_AS_FAST),
        *_highest("times as fast as the SavedModel", small_speed, minimum=_SMALL_TIMES_AS_FAST),
        *_highest("times as fast as its float32", gain, minimum=_SMALL_TIMES_AS_FAST),
        *_highest("seconds of a cold start", starts_taken, maximum=_MAX_START_SECONDS),
        *_highest("MB of memory at its peak", peaks, maximum=_MAX_PEAK_MB),
        *_highest("MB of files", sizes, maximum=_MAX_SMALL_MB),
    ]


def _highest(what: str, values: Mapping[str, float], **limit: float) -> list[bars.Bar]:
    """Returns the bar for the highest value, or no bar if there are no values."""
    names = sorted(values, key=values.__getitem__)[-1:]
    return [bars.Bar(f"{name}, {what}", values[name], **limit) for name in names]


def _find_peak_mb(runs: Sequence[starts.Start]) -> float:
    return max(run.peak_mb for run in runs)


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
