"""The training program as a user runs it, and in this process the errors that it reports before training."""

import contextlib
import dataclasses
import errno
import fcntl
import itertools
import json
import os
import signal
import subprocess
import sys
import time
import types

import event_files
import programs
import pytest
import small_models
import small_records
import tensorflow as tf
import tiny_flags

from estimator_asr import train as train_program
from estimator_asr.experiment import checkpoints, training_config
from estimator_asr.experiment import config as config_lib
from estimator_asr.monitoring.diagnostics import observers
from estimator_asr.training.checkpointing import recovery
from estimator_asr.training.distributed import cluster as cluster_lib
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import dataset_info, vocabulary

TINY = [
    *(*tiny_flags.ACOUSTIC, *tiny_flags.LANGUAGE, "--decoder_layers=0", "--notry_worst_batch"),
    *("--batch_frames=200", "--warmup_epochs=0"),
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
    """A training run in a directory that contains only the config.json of a run that was refused."""
    (directory / "am").mkdir()
    (directory / "am" / "config.json").write_text("{}", encoding="utf-8")
    return train(f"--data_dir={directory / 'data'}", f"--model_dir={directory / 'am'}", "--train_steps=4")


@pytest.mark.long
def test_a_run_logs_what_it_does(directory, first):
    assert first.returncode == 0, first.stderr
    assert f"{directory / 'am'}: new model" in first.stderr
    assert f"the settings are in {directory / 'am' / 'config.json'}" in first.stderr
    assert "encoder_units" not in first.stderr  # settings are only in that file
    assert "12 utterances, 0.00 hours" in first.stderr and "parameters: " in first.stderr
    assert "step 4 of 4  loss " in first.stderr and "frames/s  00:00 left" in first.stderr
    assert "dev at step 4: " in first.stderr and "token-error-rate" in first.stderr
    assert "deprecated" not in first.stderr and "WARNING" not in first.stderr


@pytest.mark.long
def test_the_model_directory_holds_config_vocabulary_and_checkpoints(directory, first):
    path = directory / "am"
    assert json.loads((path / "config.json").read_text(encoding="utf-8"))["acoustic"]["encoder_units"] == 16
    assert (path / "tokens.txt").read_bytes() == (directory / "data" / "tokens.txt").read_bytes()
    assert tf.train.latest_checkpoint(str(path)).endswith("model.ckpt-4")
    assert [file.name for file in (path / "best").glob("*.index")] == ["model.ckpt-4.index"]
    assert not (path / "export").exists()


@pytest.mark.long
def test_training_metrics_are_in_the_event_files(directory, first):
    path = directory / "am"
    trained, evaluated = (
        {value.tag for _, value in event_files.read_values(folder)} for folder in (path, path / "eval")
    )
    shared = {"avg-loss", "token-error-rate", "blank-fraction"}  # equal tags share a chart
    assert {*shared, "total-loss", "ctc-loss", "learning-rate", "gradient-norm"} <= trained
    assert shared <= evaluated
    events = (tf.compat.v1.train.summary_iterator(str(file)) for file in path.glob("events.*"))
    assert any(event.graph_def for event in itertools.chain(*events))  # TensorBoard shows this graph
    assert not [*path.glob("*.meta"), *path.glob("*.pbtxt")]


@pytest.fixture(scope="module")
def stopped(directory):
    """Exit code, last output and last step of a language model's training that SIGTERM ended."""
    flags = (f"--data_dir={directory / 'text'}", f"--model_dir={directory / 'lm'}", "--train_steps=1000000")
    endless = [sys.executable, "-m", "estimator_asr.train", *TINY, "--model=language", *flags]
    process = subprocess.Popen(endless, cwd=programs.ROOT, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    for line in process.stderr:
        if "step " in line and " loss " in line:
            break
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGTERM)
    output = process.stderr.read()
    return process.wait(TIMEOUT_SECONDS), output, last_step(directory / "lm")


def last_step(path):
    return int(tf.train.load_variable(str(path), "global_step"))


@pytest.mark.long
def test_sigterm_saves_a_checkpoint(directory, stopped):
    exit_code, output, step = stopped
    assert exit_code == 143, output
    saved = f"SIGTERM: a checkpoint was saved in {directory / 'lm'}"
    assert f"{saved}; run the same command to continue" in output
    assert step > 0


@pytest.mark.slow
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


SMALL = {"acoustic": small_models.ACOUSTIC, "watch": training_config.WatchConfig(try_worst_batch=False)}


@pytest.fixture(autouse=True)
def _eager_stays_on(monkeypatch):
    """Keeps eager execution on for the other tests in this process."""
    monkeypatch.setattr(tf.compat.v1, "disable_eager_execution", lambda: None)


def refuse(data_dirs, model_dir, **sections):
    """Returns the error message of a run that is refused; `sections` are fields of Settings."""
    settings = config_lib.Settings(**{**SMALL, **sections})
    with pytest.raises(errors.UserError) as caught:
        train_program.run([str(path) for path in data_dirs], str(model_dir), settings, "train")
    return str(caught.value)


def test_a_missing_data_directory_is_named(tmp_path):
    reason = refuse([tmp_path / "nowhere"], tmp_path / "new")
    assert reason.startswith(f"{tmp_path / 'nowhere'}: data directory does not exist")
    assert not (tmp_path / "new").exists()


def test_an_acoustic_model_cannot_be_trained_on_text(directory, tmp_path):
    reason = refuse([directory / "text"], tmp_path / "new")
    assert "contains text, but --model=acoustic needs audio features" in reason
    assert not (tmp_path / "new").exists()


@pytest.mark.long
def test_data_of_another_vocabulary_is_refused(directory, first, tmp_path):
    tokens = vocabulary.Vocabulary([*small_records.TOKENS.tokens, "tian1"])
    small_records.make_data(str(tmp_path / "other"), tokens=tokens)
    reason = refuse([directory / "data", tmp_path / "other"], directory / "am")
    assert f"{tmp_path / 'other'}: sha256 of tokens.txt is {tokens.sha256[:12]}, expected" in reason
    assert str(directory / "am") in reason


def test_data_of_two_frontends_or_of_speech_and_text_is_refused(directory, tmp_path):
    wide = tmp_path / "wide"
    small_records.make_data(str(wide), frontend_config=frontend.FrontendConfig(num_mel_bins=20))
    differences = {
        wide: "num_mel_bins=20, expected num_mel_bins=12",
        directory / "text": "none, expected frontend=log_mel",
    }
    for other, difference in differences.items():
        reason = refuse([directory / "data", other], tmp_path / "new")
        assert f"{other}: frontend is {difference}" in reason and f"as in {directory / 'data'}" in reason
        assert not (tmp_path / "new").exists()


def test_a_language_model_needs_characters(tmp_path):
    info = small_records.make_data(str(tmp_path / "data"), with_audio=False)
    train_split = dataclasses.replace(info.splits["train"], num_characters=0)
    dataclasses.replace(info, splits={**info.splits, "train": train_split}).save(str(tmp_path / "data"))
    language = training_config.TrainConfig(model="language")
    reason = refuse([tmp_path / "data"], tmp_path / "lm", train=language)
    assert "no characters are paired with tokens, but --model=language needs such pairs" in reason


def test_a_data_directory_as_model_directory_is_refused_and_unchanged(directory):
    names = sorted(os.listdir(directory / "data"))
    reason = refuse([directory / "data"], directory / "data")
    assert reason.startswith(f"--model_dir: {directory / 'data'} holds data (dataset_info.json), so")
    assert sorted(os.listdir(directory / "data")) == names


@pytest.mark.long
def test_a_second_training_in_the_directory_is_refused_and_touches_nothing(directory, first):
    path = directory / "am"
    half_written = path / "model.ckpt-9_temp"
    half_written.mkdir()
    config = (path / "config.json").read_bytes()
    with open(path / "training.lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        reason = refuse([directory / "data"], path, train=training_config.TrainConfig(seed=2))
    assert reason.startswith(f"--model_dir: another training run is using {path}; wait for it to end")
    assert half_written.exists() and (path / "config.json").read_bytes() == config
    half_written.rmdir()


def test_the_chief_of_a_cluster_waits_for_a_previous_chief_to_end(directory, tmp_path, monkeypatch):
    def lock(model_dir, wait_seconds):
        raise errors.UserError(f"waits for {wait_seconds:g} seconds")

    cluster = {"cluster": {"worker": ["a:1"], "evaluator": ["e:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    monkeypatch.setattr(train_program.directory_lock, "lock_directory", lock)
    assert refuse([directory / "data"], tmp_path / "am") == "waits for 120 seconds"


@pytest.mark.long
def test_a_run_that_is_refused_leaves_the_directory_as_it_was(directory, first, tmp_path):
    nowhere = training_config.TrainConfig(warm_start_from=str(tmp_path / "nowhere"))
    reason = refuse([directory / "data"], tmp_path / "new", train=nowhere)
    assert f"{tmp_path / 'nowhere'} does not exist" in reason and not (tmp_path / "new").exists()
    config = (directory / "am" / "config.json").read_bytes()
    momentum = training_config.OptimizerConfig(optimizer="momentum")
    without_decoder = dataclasses.replace(SMALL["acoustic"], decoder_layers=0)
    reason = refuse([directory / "data"], directory / "am", optimizer=momentum, acoustic=without_decoder)
    assert "contains the state of an optimizer other than" in reason
    assert (directory / "am" / "config.json").read_bytes() == config


@pytest.mark.parametrize("code, asks_for_restart", [(errno.ECONNRESET, True), (errno.ENOSPC, False)])
def test_a_worker_asks_for_a_restart_unless_the_disk_is_full(monkeypatch, code, asks_for_restart):
    def fail(*arguments):
        raise OSError(code, "refused")

    monkeypatch.setattr(train_program.loop, "train", fail)
    worker = cluster_lib.Cluster(("a:1", "b:2"), None, 1)
    training = observers.Training(types.SimpleNamespace(path="model"), [], [], "", worker)
    with contextlib.nullcontext() if asks_for_restart else pytest.raises(OSError):
        assert train_program._train(training) == os.EX_SOFTWARE


# Mounts a file system of 5 MB that only this command sees, runs it, and then copies the files elsewhere.
IN_A_SMALL_PLACE = """
mount -t tmpfs -o size=5m none "$0" || exit 77
"$@"
code=$?
cp -r "$0" "$0.kept"
exit $code
"""


@pytest.mark.slow
def test_a_full_disk_is_reported_in_one_sentence_and_earlier_checkpoints_stay(directory, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    flags = [f"--data_dir={directory / 'text'}", f"--model_dir={place / 'lm'}", "--model=language"]
    flags += ["--train_steps=100", "--save_checkpoints_steps=1", "--ngram_rows=12007", "--nowatchdog"]
    program = [sys.executable, "-m", "estimator_asr.train", *TINY, *flags]
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", IN_A_SMALL_PLACE, str(place), *program]
    options = {"cwd": programs.ROOT, "capture_output": True, "text": True, "timeout": TIMEOUT_SECONDS}
    full = subprocess.run(command, **options)
    if full.returncode == 77 or "unshare" in full.stderr:
        pytest.skip("users cannot mount file systems on this machine")
    assert full.returncode == 1 and "Traceback" not in full.stderr, full.stderr
    last = full.stderr.splitlines()[-1]
    assert last.startswith(f"error: {place / 'lm'}/")
    assert last.endswith(": No space left on device; free some space; finished work is kept")
    found, faults = recovery.find_checkpoint(str(tmp_path / "place.kept" / "lm"))
    assert checkpoints.step_of(found) >= 1 and faults == {}


def build_sampled_config(directory, num_sampled, *counts):
    """Builds the settings for several data directories with given token counts."""
    data = str(directory / "data")
    info = dataset_info.DatasetInfo.load(data)
    infos = [dataclasses.replace(info, token_counts=token_counts) for token_counts in counts]
    acoustic = config_lib.AcousticConfig(softmax="nce", num_sampled=num_sampled)
    return train_program.build_config(config_lib.Settings(acoustic=acoustic), infos, [data] * len(infos))


def test_tokens_are_sorted_by_their_counts_in_all_directories(directory):
    made = build_sampled_config(directory, 5, (0, 3, 9, 1, 1), (0, 8, 1, 1, 1))
    assert made.tokens_by_frequency == (1, 2, 3, 4, 0)  # the counts are 11, 10, 2, 2 and 0


@pytest.mark.parametrize(
    "num_sampled, counts, said",
    [
        (5, [(1, 1, 1, 1, 1), ()], "data: dataset_info.json has no token_counts, which --softmax"),
        (6, [(1, 1, 1, 1, 1)], "--num_sampled is 6, expected at most 5 .size of the vocab"),
    ],
)
def test_a_sampled_softmax_needs_token_counts_and_enough_tokens(directory, num_sampled, counts, said):
    with pytest.raises(errors.UserError, match=said):
        build_sampled_config(directory, num_sampled, *counts)


@pytest.mark.slow
def test_two_replicas_train_with_a_sampled_softmax_and_one_device_continues_with_the_full_one(directory):
    flags = [f"--data_dir={directory / 'data'}", f"--model_dir={directory / 'sampled'}", "--decoder_layers=1"]
    sampled = ["--softmax=sampled", "--num_sampled=2", "--train_steps=3", "--num_cpu_replicas=2"]
    done = train(*flags, *sampled)
    assert done.returncode == 0, done.stderr
    assert "2 replica(s)" in done.stderr
    done = train(*flags, "--train_steps=4")
    assert done.returncode == 0, done.stderr
    assert "--softmax sampled -> full" in done.stderr and last_step(directory / "sampled") == 4
