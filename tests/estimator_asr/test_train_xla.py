"""The training program with --xla has the same losses as without, and compiles once per batch shape."""

import os
import re
import subprocess
import sys

import event_files
import programs
import pytest
import small_records
import tiny_flags

SMALL = [
    *(*tiny_flags.ACOUSTIC, *tiny_flags.LANGUAGE, "--decoder_layers=1"),
    *("--num_buckets=2", "--batch_frames=400", "--batch_tokens=8", "--warmup_epochs=0", "--train_steps=24"),
    *("--save_summary_steps=1", "--notry_worst_batch"),
    # Adam would magnify rounding errors, because it divides small gradients by their size.
    "--optimizer=momentum",
    # Dropout samples a number for each value, including padding, of which --xla has more.
    *("--acoustic_dropout=0", "--language_dropout=0", "--ngram_dropout=0"),
]
NUM_SHAPES = 2  # number of batch shapes, equal to --num_buckets
TIMEOUT_SECONDS = 400
LOGGED = {"TF_CPP_VMODULE": "device_compilation_profiler=1", "TF_CPP_MIN_LOG_LEVEL": "0"}


def train(data, model_dir, kind, *flags):
    """Trains without a dev split; returns the log."""
    places = [f"--data_dir={data}", f"--model_dir={model_dir}", f"--model={kind}"]
    command = [sys.executable, "-m", "estimator_asr.train", *SMALL, *places, *flags]
    options = {"cwd": programs.ROOT, "env": {**os.environ, **LOGGED}, "capture_output": True, "text": True}
    run = subprocess.run(command, timeout=TIMEOUT_SECONDS, **options)
    assert run.returncode == 0, run.stderr
    return run.stderr


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_SECONDS)
@pytest.mark.parametrize("kind", ["acoustic", "language"])
def test_losses_are_those_without_xla_and_each_shape_is_compiled_once(tmp_path, kind):
    """SpecAugment is on, because --xla does not change its masks. Each shape occurs in many steps.

    Every batch has several utterances, because batch norm over a single utterance magnifies rounding errors:
    even without --xla, a difference of 3e-7 in the features changes the loss by 2e-3.
    """
    small_records.make_data(str(tmp_path / "data"), splits=[("train", 25)], with_audio=kind == "acoustic")
    train(tmp_path / "data", tmp_path / "plain", kind)
    log = train(tmp_path / "data", tmp_path / "xla", kind, "--xla")
    assert "--xla makes training on a CPU slower" in log
    counts = {}
    for cluster, count in re.findall(r"Compiled (cluster_\d+) (\d+) times", log):
        counts[cluster] = max(int(count), counts.get(cluster, 0))
    assert counts and max(counts.values()) <= NUM_SHAPES, counts
    expected = event_files.read_scalars(tmp_path / "plain", "loss")
    assert len(expected) == 24
    # Rounding differs, and its effect grows from step to step.
    first = {step: expected[step] for step in (1, 2, 3)}
    losses = event_files.read_scalars(tmp_path / "xla", "loss")
    assert {step: losses[step] for step in first} == pytest.approx(first, rel=1e-5)
    assert losses == pytest.approx(expected, rel=1e-4)
