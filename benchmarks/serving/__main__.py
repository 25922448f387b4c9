"""Times the server: one client, then sixteen at once, beside the bare SavedModel in batches.

    python -m benchmarks.serving --saved_model=EXPORT --audio_dir=WAVS [--seconds=300]

The WAV files in a directory are joined into clips of about five seconds. The server runs in a separate
process. Each client sends a :predict request with one clip, waits for the response, and sends the next
request. A response is an error if its status is not 200, or if its transcript differs from the transcript of
the clip alone. Before the server starts, the bare SavedModel runs in this process with batches of each size;
the size with the most clips per second counts. Memory is the server's resident set, and its growth is a
least-squares fit over the second half of the time with all clients. A missed bar is marked FAIL, and the exit
code is then 1.
"""

from __future__ import annotations

import dataclasses

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf

from benchmarks import bars, machine
from benchmarks.serving import bare as serving_bare
from benchmarks.serving import clients as serving_clients
from benchmarks.serving import clips as serving_clips
from benchmarks.serving import process
from tfrecord_builder.program import config_flags, program

_SERIAL_TIMES, _BARE_SHARE = 6, 0.9  # meeting one of the two is enough
_P99_TO_P50 = 4
_MAX_GROWTH = 1.0  # MB per 1,000 requests
_BARE_SIZES = (1, 4, 8, 16, 32)


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model, the speech, and the duration of each measurement."""

    saved_model: str = config_flags.setting("", "export directory, or one version in it", required=True)
    audio_dir: str = config_flags.setting("", "directory of WAV files with one sample rate", required=True)
    clip_seconds: float = config_flags.setting(5.0, "minimum length of a clip", positive=True)
    num_clients: int = config_flags.setting(16, "number of simultaneous clients", minimum=2)
    seconds: float = config_flags.setting(60.0, "time in which all clients send", positive=True)
    serial_seconds: float = config_flags.setting(15.0, "time in which one client sends", positive=True)
    bare_seconds: float = config_flags.setting(
        5.0, "duration per batch size of the bare SavedModel", positive=True
    )


def main(config: BenchmarkConfig) -> int:
    """Prints the table and the bars; returns 1 if a bar is missed."""
    machine.check_cores()
    tf.get_logger().setLevel("ERROR")
    clips = serving_clips.read(config.audio_dir, config.clip_seconds)
    mean_seconds = sum(clip.seconds for clip in clips) / len(clips)
    bare = serving_bare.time_sizes(config.saved_model, clips, _BARE_SIZES, config.bare_seconds)
    with process.Server(config.saved_model) as server:
        print(f"{len(clips)} clips of {mean_seconds:.1f} s; {server.line}")
        texts = serving_clients.read_texts(server.address, clips)
        serial = serving_clients.send(server.address, clips, texts, 1, config.serial_seconds)
        with server.watch_memory() as memory:
            many = serving_clients.send(server.address, clips, texts, config.num_clients, config.seconds)
    show(config.num_clients, mean_seconds, bare, serial, many)
    growth = memory.growth(many.requests_per_second)
    print(
        f"memory of the server: {memory.first:.0f} MB at the first, {memory.last:.0f} MB at the last request"
    )
    return bars.show(make_bars(bare, serial, many, growth))


def show(num_clients: int, mean_seconds: float, bare: dict, serial, many) -> None:
    """Prints a line for the server with one client, with all clients, and for each bare batch size."""
    print(f"{'side':34}{'clips/s':>9}{'times real time':>17}{'p50 ms':>9}{'p99 ms':>9}{'errors':>8}")
    for name, found in {"server, one client": serial, f"server, {num_clients} clients": many}.items():
        rate = found.requests_per_second
        times = "".join(f"{1e3 * found.percentile(each):9.0f}" for each in (50, 99))
        print(f"{name:34}{rate:9.1f}{rate * mean_seconds:17.0f}{times}{found.num_errors:8}")
    for size, rate in bare.items():
        print(f"{f'bare SavedModel, batches of {size}':34}{rate:9.1f}{rate * mean_seconds:17.0f}")


def make_bars(bare: dict[int, float], serial, many, growth: float) -> list[bars.Bar]:
    """Returns the bars; of the two throughput bars, only the one that is closer to being met.

    Args:
        bare: clips per second by batch size.
        serial: serving_clients.Load of one client.
        many: serving_clients.Load of all clients.
        growth: memory growth in MB per 1,000 requests.
    """
    rate = many.requests_per_second
    throughput = max(
        (
            bars.Bar(
                "throughput, times that of one client", rate / serial.requests_per_second, _SERIAL_TIMES
            ),
            bars.Bar("throughput, share of the bare SavedModel's", rate / max(bare.values()), _BARE_SHARE),
        ),
        key=lambda bar: bar.value / bar.minimum,
    )
    return [
        throughput,
        bars.Bar("p99, times p50", many.percentile(99) / many.percentile(50), maximum=_P99_TO_P50),
        bars.Bar("errors", serial.num_errors + many.num_errors, maximum=0),
        bars.Bar("growth of memory, MB per 1,000 requests", growth, maximum=_MAX_GROWTH),
    ]


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
