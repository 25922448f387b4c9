"""Measures the input pipeline alone, on text of random lengths: indexing, resuming and CPU time per batch.

    python -m benchmarks.input_pipeline --num_utterances=1000000

Each line is measured in a separate process: CPU seconds until the first batch, or for 300 batches.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

_NUM_BATCHES = 300
_NUM_SHARDS = 64


def _make_data(path: str, num_utterances: int) -> None:
    import numpy as np
    import tensorflow as tf

    from tfrecord_builder.data import schema
    from tfrecord_builder.storage import files

    rng, found, counts = np.random.default_rng(0), [], {}
    for shard in range(_NUM_SHARDS):
        file = os.path.join(path, schema.shard_name("train", shard, _NUM_SHARDS))
        with tf.io.TFRecordWriter(file) as writer:
            for number in range(shard, num_utterances, _NUM_SHARDS):
                ids = rng.integers(1, 400, rng.integers(5, 25)).tolist()
                texts = (f"u{number:08d}", "speaker", "的" * len(ids), " ".join(["de5"] * len(ids)))
                writer.write(schema.make_example(schema.Record(*texts, ids, ids)))
                counts[len(ids)] = counts.get(len(ids), 0) + 1
        found.append([file, os.path.getsize(file), files.sha256(file)])
    with open(os.path.join(path, "split.json"), "w") as file:
        json.dump([found, counts], file)


def _open(path: str):
    from estimator_asr.experiment import task_spec
    from estimator_asr.inputs import splits

    with open(os.path.join(path, "split.json")) as file:
        found, counts = json.load(file)
    counts = {int(length): count for length, count in counts.items()}
    of_shards = tuple(splits.DataShard(*each) for each in found)
    return splits.Split(task_spec.LANGUAGE, of_shards, counts, 0.0, None, "float16", max(counts), "")


def _measure(path: str, begin: float, num_batches: int) -> None:
    """Prints CPU seconds and peak MiB; if `num_batches` is not 0, times these batches, not the first."""
    from estimator_asr.experiment import config as config_lib
    from estimator_asr.inputs import input_fn, input_progress

    source, config = _open(path), config_lib.InputConfig()
    start = input_progress.InputPosition(0, int(begin * source.bucket(config).batches_per_epoch))
    build = input_fn.build_input_fn(source, config, training=True, start=start)
    before = time.process_time()
    batches = input_fn.read_elements(build)
    next(batches)
    if num_batches:
        before = time.process_time()
        for _ in range(num_batches):
            next(batches)
    seconds = time.process_time() - before
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def _run(directory: str, *arguments) -> tuple[float, float]:
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": os.path.join(directory, "cache"),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, "-m", "benchmarks.input_pipeline", "--data", directory, *map(str, arguments)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num_utterances", type=int, default=100_000)
    parser.add_argument("--data", help=argparse.SUPPRESS)
    parser.add_argument("measure", nargs="*", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.data:
        return _measure(options.data, float(options.measure[0]), int(options.measure[1]))
    with tempfile.TemporaryDirectory() as directory:
        _make_data(directory, options.num_utterances)
        cases = {
            "first start, at the first batch": (0, 0),
            "start at the first batch": (0, 0),
            "resuming at 90 % of the epoch": (0.9, 0),
        }
        for name, case in cases.items():
            seconds, mib = _run(directory, *case)
            print(f"{name}: {seconds:.1f} s of CPU, peak {mib:,.0f} MiB")
        seconds, mib = _run(directory, 0, _NUM_BATCHES)
        print(f"a batch: {1000 * seconds / _NUM_BATCHES:.1f} ms of CPU, peak {mib:,.0f} MiB")


if __name__ == "__main__":
    main()
