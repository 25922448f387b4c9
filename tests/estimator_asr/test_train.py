"""The program as a user runs it, each time in a process of its own."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import programs
import pytest
import small_records
import tensorflow as tf

from estimator_asr.checkpointing import checkpoints, recovery
from tfrecord_builder import frontend, vocabulary

TINY = [
    *("--encoder_layers=1", "--encoder_units=16", "--encoder_inner_units=16", "--attention_heads=2"),
    *("--subsampling_channels=4", "--batch_frames=200", "--warmup_epochs=0", "--progress_seconds=0.001"),
    *("--language_layers=1", "--language_units=16", "--language_inner_units=16", "--language_heads=2"),
    *(
        "--decoder_layers=0",
        "--ngram_rows=31",
        "--ngram_units=4",
        "--notry_worst_batch",
        "--show_utterances=0",
    ),
]
TIMEOUT_SECONDS = 240


def train(*flags):
    return programs.run("estimator_asr.train", *TINY, *flags, timeout=TIMEOUT_SECONDS)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("train")
    small_records.make_data(str(path / "data"))
    small_records.make_data(str(path / "text"), splits=[("train", 12)], with_audio=False)
    return path


@pytest.fixture(scope="module")
def first(directory):
    """A training in a directory where one that was refused has left its config."""
    (directory / "am").mkdir()
    (directory / "am" / "config.json").write_text("{}", encoding="utf-8")
    return train(f"--data_dir={directory / 'data'}", f"--model_dir={directory / 'am'}", "--train_steps=4")


def test_a_run_says_what_it_does(directory, first):
    assert first.returncode == 0, first.stderr
    assert f"{directory / 'am'}: new model" in first.stderr
    assert f"settings: {directory / 'am' / 'config.json'}" in first.stderr
    assert "encoder_units" not in first.stderr  # they are in that file
    assert "12 utterances, 0.00 hours" in first.stderr and "parameters: " in first.stderr
    assert "step 4 of 4  loss " in first.stderr and "frames/s  left 00:00" in first.stderr
    assert "dev at step 4: " in first.stderr and "token-error-rate" in first.stderr
    assert "deprecated" not in first.stderr and "WARNING" not in first.stderr


def test_the_model_directory_holds_config_vocabulary_checkpoints_and_exports(directory, first):
    path = directory / "am"
    assert json.loads((path / "config.json").read_text(encoding="utf-8"))["acoustic"]["encoder_units"] == 16
    assert (path / "tokens.txt").read_bytes() == (directory / "data" / "tokens.txt").read_bytes()
    assert tf.train.latest_checkpoint(str(path)).endswith("model.ckpt-4")
    assert [len(os.listdir(path / "export" / kind)) for kind in ("best", "final")] == [1, 1]


def test_the_training_figures_are_in_the_event_files(directory, first):
    tags, graphs = {"train": set(), "eval": set()}, 0
    for kind, folder in (("train", directory / "am"), ("eval", directory / "am" / "eval")):
        for path in folder.glob("events.*"):
            for event in tf.compat.v1.train.summary_iterator(str(path)):
                tags[kind].update(value.tag for value in event.summary.value)
                graphs += bool(event.graph_def)
    assert {
        "total-loss",
        "avg-loss",
        "ctc-loss",
        "learning-rate",
        "gradient-norm",
        "token-error-rate",
    } <= tags["train"]
    assert {"avg-loss", "token-error-rate", "blank-fraction"} <= tags["eval"]  # the same, so in one chart
    assert graphs  # TensorBoard's; none lies beside the checkpoints
    assert not [*(directory / "am").glob("*.meta"), *(directory / "am").glob("*.pbtxt")]


@pytest.fixture(scope="module")
def stopped(directory):
    """The language model's training, ended by SIGTERM; exit code and what it said after the signal."""
    flags = (f"--data_dir={directory / 'text'}", f"--model_dir={directory / 'lm'}", "--train_steps=1000000")
    endless = [sys.executable, "-m", "estimator_asr.train", *TINY, "--model=language", *flags]
    process = subprocess.Popen(endless, cwd=programs.ROOT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    for line in process.stderr:
        if "step " in line and " loss " in line:
            break
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGTERM)
    said = process.stderr.read()
    return process.wait(TIMEOUT_SECONDS), said, last_step(directory / "lm")


def last_step(path):
    return int(tf.train.load_variable(str(path), "global_step"))


def test_sigterm_saves_a_checkpoint(directory, stopped):
    exit_code, said, step = stopped
    assert exit_code == 143, said
    assert f"SIGTERM: a checkpoint is saved in {directory / 'lm'}; the same command continues" in said
    assert step > 0


def test_training_continues_on_replicas_and_then_on_one_device(directory, stopped):
    flags = ["--model=language", f"--data_dir={directory / 'text'}", f"--model_dir={directory / 'lm'}"]
    step = stopped[2]
    on_replicas = train(*flags, f"--train_steps={step + 2}", "--num_cpu_replicas=2")
    assert on_replicas.returncode == 0, on_replicas.stderr
    assert f"{directory / 'lm'}: continues from step {step}" in on_replicas.stderr
    assert "2 replica(s)" in on_replicas.stderr
    names = {name for name, _ in tf.train.list_variables(str(directory / "lm"))}
    assert not [name for name in names if "replica" in name]
    on_one = train(*flags, f"--train_steps={step + 4}")
    assert on_one.returncode == 0, on_one.stderr
    assert f"continues from step {step + 2}" in on_one.stderr
    assert last_step(directory / "lm") == step + 4


def test_xla_compiles_a_training_step(directory):
    data = [f"--data_dir={directory / 'text'}", f"--model_dir={directory / 'xla'}"]
    command = [sys.executable, "-m", "estimator_asr.train", *TINY, *data, "--model=language"]
    run = subprocess.run(
        [*command, "--train_steps=2", "--xla"],
        cwd=programs.ROOT,
        env={**os.environ, "TF_CPP_VMODULE": "device_compilation_profiler=1", "TF_CPP_MIN_LOG_LEVEL": "0"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert run.returncode == 0, run.stderr
    assert "--xla on a CPU: measured" in run.stderr
    assert re.search(r"Compiled cluster_\S+ 1 times", run.stderr)


def refuse(*flags):
    run = train(*flags)
    assert run.returncode == 1 and "Traceback" not in run.stderr, run.stderr
    return run.stderr.splitlines()[-1]


def test_contradicting_flags_are_both_named(directory):
    line = refuse("--data_dir=x", "--model_dir=y", "--train_steps=5", "--train_epochs=2")
    assert line.startswith("error: train: --train_steps=5 and --train_epochs=2 are both given")


def test_a_directory_that_is_not_given_is_one_sentence():
    assert train("--model_dir=y").stderr == "error: train: --data_dir is missing; give a directory\n"
    assert train("--data_dir=x").stderr == "error: train: --model_dir is missing; give a directory\n"


def test_a_missing_data_directory_is_named(directory):
    line = refuse(f"--data_dir={directory / 'nowhere'}", f"--model_dir={directory / 'new'}")
    assert line.startswith(f"error: {directory / 'nowhere'}: there is no such data directory")
    assert not (directory / "new").exists()


def test_an_acoustic_model_cannot_be_made_of_text(directory):
    line = refuse(f"--data_dir={directory / 'text'}", f"--model_dir={directory / 'new'}")
    assert "holds text, expected audio features for --model=acoustic" in line
    assert not (directory / "new").exists()


def test_data_of_another_vocabulary_is_refused(directory, first, tmp_path):
    tokens = vocabulary.Vocabulary([*small_records.TOKENS.tokens, "tian1"])
    small_records.make_data(str(tmp_path / "other"), tokens=tokens)
    both = f"--data_dir={directory / 'data'},{tmp_path / 'other'}"
    line = refuse(both, f"--model_dir={directory / 'am'}", "--train_steps=9")
    assert f"{tmp_path / 'other'}: tokens.txt has sha256 {tokens.sha256[:12]}, expected" in line
    assert str(directory / "am") in line


def test_data_of_two_frontends_or_of_speech_and_text_is_refused(directory, tmp_path):
    wide = frontend.FrontendConfig(num_mel_bins=20)
    small_records.make_data(str(tmp_path / "wide"), frontend_config=wide)
    for other, said in ((tmp_path / "wide", "num_mel_bins=20"), (directory / "text", "frontend is None")):
        line = refuse(f"--data_dir={directory / 'data'},{other}", f"--model_dir={tmp_path / 'new'}")
        assert f"{other}: frontend is " in line and said in line and "expected frontend=log_mel" in line
        assert f"as in {directory / 'data'}" in line
        assert not (tmp_path / "new").exists()


def test_a_language_model_needs_characters(tmp_path):
    info = small_records.make_data(str(tmp_path / "data"), with_audio=False)
    train_split = dataclasses.replace(info.splits["train"], num_characters=0)
    dataclasses.replace(info, splits={**info.splits, "train": train_split}).save(str(tmp_path / "data"))
    line = refuse("--model=language", f"--data_dir={tmp_path / 'data'}", f"--model_dir={tmp_path / 'lm'}")
    assert "has 0 characters that pair with tokens, expected some for --model=language" in line


def test_no_data_directory_is_refused(tmp_path):
    assert refuse("--data_dir=", f"--model_dir={tmp_path / 'am'}").startswith(
        "error: train: --data_dir is missing"
    )


def test_a_model_dir_that_is_a_file_is_one_sentence(directory, tmp_path):
    (tmp_path / "am").write_text("", encoding="utf-8")
    assert str(tmp_path / "am") in refuse(
        f"--data_dir={directory / 'data'}", f"--model_dir={tmp_path / 'am'}"
    )


def test_the_best_checkpoints_of_a_model_are_not_trained(directory, tmp_path):
    (tmp_path / "best_checkpoints.json").write_text("[]", encoding="utf-8")
    line = refuse(f"--data_dir={directory / 'data'}", f"--model_dir={tmp_path}")
    assert line.startswith(f"error: --model_dir: {tmp_path} holds the best checkpoints of another model dir")


def test_a_second_training_in_the_directory_is_refused_and_touches_nothing(directory, first):
    path = directory / "am"
    half_written = path / "model.ckpt-9_temp"
    half_written.mkdir()
    config = (path / "config.json").read_bytes()
    with open(path / "training.lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        line = refuse(
            f"--data_dir={directory / 'data'}", f"--model_dir={path}", "--train_steps=4", "--seed=2"
        )
    assert line.startswith(f"error: --model_dir: another training is running in {path}, expected none")
    assert half_written.exists() and (path / "config.json").read_bytes() == config
    half_written.rmdir()


def test_the_chief_of_a_cluster_waits_for_the_one_before_it(directory, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host, port = free.getsockname()
    cluster = {"cluster": {"worker": [f"{host}:{port}"], "evaluator": ["e:1"]}}
    environment = {**os.environ, "TF_CONFIG": json.dumps({**cluster, "task": {"type": "worker", "index": 0}})}
    flags = [f"--data_dir={directory / 'data'}", f"--model_dir={tmp_path}", "--train_steps=4"]
    command = [sys.executable, "-m", "estimator_asr.train", *TINY, *flags]
    with open(tmp_path / "training.lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = subprocess.Popen(
            command, cwd=programs.ROOT, env=environment, stderr=subprocess.PIPE, text=True
        )
        line = process.stderr.readline()
        process.kill()
        said = line + process.communicate()[1]
    assert "training.lock: held by another training, waiting for at most 120 seconds" in line, said


def test_a_run_that_is_refused_leaves_the_directory_as_it_was(directory, first, tmp_path):
    data = f"--data_dir={directory / 'data'}"
    line = refuse(data, f"--model_dir={tmp_path / 'new'}", f"--warm_start_from={tmp_path / 'nowhere'}")
    assert f"{tmp_path / 'nowhere'}: there is no such" in line and not (tmp_path / "new").exists()
    config = (directory / "am" / "config.json").read_bytes()
    line = refuse(data, f"--model_dir={directory / 'am'}", "--optimizer=momentum", "--train_steps=9")
    assert "holds the state of another optimizer" in line
    assert (directory / "am" / "config.json").read_bytes() == config


WORKER = """
import errno
from estimator_asr import train
from estimator_asr.training.devices import cluster

def fail(*_):
    raise OSError(code, "refused")

train.run_loop.train = fail
for code in (errno.ECONNRESET, errno.ENOSPC):
    try:
        print(train._train(None, [], [], cluster.Cluster(("a:1", "b:2"), None, 1)))
    except OSError as error:
        print(error.errno == errno.ENOSPC)
"""


def test_a_worker_asks_for_a_restart_unless_the_disk_is_full():
    done = subprocess.run([sys.executable, "-c", WORKER], cwd=programs.ROOT, capture_output=True, text=True)
    assert done.stdout.split() == [str(os.EX_SOFTWARE), "True"], done.stderr


def test_a_data_directory_is_not_trained_in(directory):
    names = sorted(os.listdir(directory / "data"))
    line = refuse(f"--data_dir={directory / 'data'}", f"--model_dir={directory / 'data'}", "--train_steps=1")
    assert line.startswith(
        f"error: --model_dir: {directory / 'data'} holds data (dataset_info.json), expected"
    )
    assert sorted(os.listdir(directory / "data")) == names


# A file system of 5 MB that only these processes see; what is in it at the end is copied out of it.
IN_A_SMALL_PLACE = """
mount -t tmpfs -o size=5m none "$0" || exit 77
"$@"
code=$?
cp -r "$0" "$0.kept"
exit $code
"""


def test_a_full_disk_is_one_sentence_and_earlier_checkpoints_stay(directory, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    flags = [f"--data_dir={directory / 'text'}", f"--model_dir={place / 'lm'}", "--model=language"]
    flags += ["--train_steps=100", "--save_checkpoints_steps=1", "--keep_checkpoint_max=100", "--nowatchdog"]
    program = [sys.executable, "-m", "estimator_asr.train", *TINY, *flags]
    full = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", IN_A_SMALL_PLACE, str(place), *program],
        cwd=programs.ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    if full.returncode == 77 or "unshare" in full.stderr:
        pytest.skip("this machine lets nobody mount a file system of his own")
    assert full.returncode == 1 and "Traceback" not in full.stderr, full.stderr
    last = full.stderr.splitlines()[-1]
    assert last.startswith(f"error: {place / 'lm'}/")
    assert last.endswith(": No space left on device; free some space; what was finished is kept")
    found, faults = recovery.find(str(tmp_path / "place.kept" / "lm"))
    assert checkpoints.step_of(found) >= 1 and faults == {}
