"""The training program on CPU replicas, which use the same collectives as GPUs."""

import os
import re
import signal
import time

import event_files
import programs
import pytest
import small_records
import tiny_flags

SMALL = [*tiny_flags.ACOUSTIC, *tiny_flags.LANGUAGE, "--decoder_layers=1"]
DATA = {"acoustic": "speech", "language": "text"}
# A batch has three utterances, and the last batch of an epoch one or two, for two or four replicas.
BATCH = {"acoustic": "--batch_frames=160", "language": "--batch_tokens=8"}
TIMEOUT_SECONDS = 250


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("replicas")
    splits = [("train", 25), ("dev", 3)]
    small_records.make_data(str(path / "speech"), splits=splits)
    small_records.make_data(str(path / "text"), splits=splits, with_audio=False)
    return path


def command(directory, kind, name, *flags):
    data = [f"--data_dir={directory / DATA[kind]}", f"--model_dir={directory / name}", f"--model={kind}"]
    return ["estimator_asr.train", *SMALL, *data, BATCH[kind], "--save_summary_steps=1", *flags]


@pytest.mark.slow
@pytest.mark.timeout(4 * TIMEOUT_SECONDS)
@pytest.mark.parametrize("kind, num_replicas, accumulation", [("acoustic", 2, 2), ("language", 4, 1)])
def test_replicas_have_the_losses_of_one_device_and_continue(directory, kind, num_replicas, accumulation):
    """Batch norm, watchdog, memory probe and summaries are on; dropout is off, as it differs on replicas."""
    flags = ["--acoustic_dropout=0", "--language_dropout=0", "--ngram_dropout=0", "--token_noise=0"]
    flags += ["--nospec_augment", f"--gradient_accumulation_steps={accumulation}", "--warmup_epochs=0"]
    one, many = (f"{kind}-{accumulation}-{n}" for n in (1, num_replicas))
    alone = programs.run(*command(directory, kind, one, *flags, "--train_steps=12"), timeout=TIMEOUT_SECONDS)
    assert alone.returncode == 0, alone.stderr
    flags.append(f"--num_cpu_replicas={num_replicas}")
    for steps in (7, 12):
        train = command(directory, kind, many, *flags, f"--train_steps={steps}")
        run = programs.run(*train, timeout=TIMEOUT_SECONDS)
        assert run.returncode == 0, run.stderr
        assert f"dev at step {steps}: " in run.stderr
        assert "largest batch (" in run.stderr
    losses, expected = (event_files.read_scalars(directory / name, "loss") for name in (many, one))
    assert len(expected) == 12 + (accumulation > 1)  # an update's first batch is logged at the previous step
    # Sums over replicas round differently, and Adam's steps are large even for small gradients.
    assert losses == pytest.approx(expected, rel=2e-3)


@pytest.mark.slow
def test_sigterm_saves_a_checkpoint_of_replicas(directory, tmp_path):
    log = tmp_path / "stderr"
    endless = command(directory, "language", "endless", "--train_steps=1000000", "--num_cpu_replicas=2")
    process = programs.start(*endless, outputs=[tmp_path / "stdout", log])
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (log.exists() and re.search(r"step \d+ of", log.read_text())):
        assert process.is_alive() and time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGTERM)
    process.join(60)
    assert process.exitcode == 143
    assert "SIGTERM: a checkpoint was saved" in log.read_text()
