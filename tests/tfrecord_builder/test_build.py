import glob
import os
import resource
import signal
import subprocess
import sys
import time
from unittest import mock

import paths
import programs
import pytest
import small_corpora

from tfrecord_builder import build
from tfrecord_builder.data import dataset_info

ROOT = str(paths.ROOT)


def _command(*arguments):
    return [sys.executable, "-m", "tfrecord_builder.build", *arguments]


def _run(*arguments):
    return programs.run("tfrecord_builder.build", *arguments)


@pytest.mark.long
def test_a_user_error_is_one_sentence():
    done = _run("--corpus=manifest", "--corpus_dir=nowhere", "--output_dir=out")
    assert done.returncode == 1
    assert "error: --corpus_dir: nowhere does not exist" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kilobytes", [4, pytest.param(60, marks=pytest.mark.slow)])  # catalog or shards fail
@pytest.mark.long
def test_a_full_disk_is_one_sentence_and_the_build_can_continue_later(tmp_path, kilobytes):
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "in", 20, 4)
    where = (f"--corpus_dir={corpus_dir}", f"--output_dir={tmp_path / 'out'}")
    arguments = (*where, "--num_shards=1", "--num_workers=1")
    limit = (kilobytes << 10, kilobytes << 10)  # maximum file size; longer writes fail as on a full disk
    full = subprocess.run(
        _command(*arguments),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert full.returncode == 1
    assert "cannot be written" in full.stderr and "free some space" in full.stderr
    assert "Traceback" not in full.stderr
    again = _run(*arguments)
    assert again.returncode == 0, again.stderr


@pytest.mark.long
def test_prints_a_summary_of_the_build(tmp_path):
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "in", 3, 4)
    done = _run(f"--corpus_dir={corpus_dir}", f"--output_dir={tmp_path / 'out'}", "--num_workers=1")
    assert done.stdout.splitlines() == [
        "dev: 4 utterances, 0.00 hours, 2 speakers, 4 sentences (2 also in train), "
        "8 tokens (4 unknown), 8 characters (4 unknown)",
        "train: 3 utterances, 0.00 hours, 2 speakers, 3 sentences, "
        "10 tokens (0 unknown), 10 characters (0 unknown)",
        f"rejected: 0, see {tmp_path}/out/rejected.tsv",
        f"report (read it before training): {tmp_path}/out/report.html",
    ]
    assert os.path.exists(f"{tmp_path}/out/report.html")


@pytest.mark.slow
def test_ctrl_c_prints_one_line(tmp_path):
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "in", 1500, 1)
    process = subprocess.Popen(
        _command(f"--corpus_dir={corpus_dir}", f"--output_dir={tmp_path / 'out'}", "--num_workers=2"),
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 120
    while not glob.glob(f"{tmp_path}/out/.build/train*.tfrecord.json") and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    stderr = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    logged = ("W", "I", "building:")  # log lines; on a slow machine also progress
    assert [line for line in stderr.splitlines() if not line.startswith(logged)] == ["interrupted"]
    assert os.listdir(tmp_path / "out") == [".build"]


def test_the_summary_says_that_speakers_are_unknown():
    counts = ("num_utterances", "num_speakers", "num_tokens", "num_characters")
    split = dataset_info.SplitInfo(
        **dict.fromkeys(counts, 0),
        **{"seconds": 0.0, "unknown_tokens": 0, "unknown_characters": 0},
        **{"frame_lengths": {}, "token_lengths": {}, "shards": ()},
    )
    info = mock.Mock(splits={"test": split}, frontend="log_mel")
    assert build._describe(info)[0].startswith(
        "test: 0 utterances, 0.00 hours, speakers unknown, 0 sentences"
    )


# Prints, when a program ends, which of the given modules it has imported.
_PROBE = """
import atexit, runpy, sys
def tell():
    names = sys.argv[0].split(",")
    print("loaded:", *[name for name in names if name in sys.modules])
atexit.register(tell)
program, names, *arguments = sys.argv[1:]
sys.argv = [names, *arguments]
runpy.run_module(program, run_name="__main__", alter_sys=False)
"""


def _probe(program, names, *arguments):
    command = [sys.executable, "-c", _PROBE, program, ",".join(names), *arguments]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)


@pytest.mark.long
def test_a_build_with_one_worker_is_one_process_and_loads_what_it_uses(tmp_path):
    small_corpora.write_audio(tmp_path / "in" / "a.wav", small_corpora.tone(0.5))
    lines = "id\taudio\tspeaker\ttext\tpinyin\tsplit\nu\ta.wav\ts\t\tni3 hao3\ttrain\n"
    small_corpora.write_text(tmp_path / "in" / "manifest.tsv", lines)
    where = (f"--corpus_dir={tmp_path / 'in'}", f"--output_dir={tmp_path / 'out'}")
    process = "multiprocessing.popen_spawn_posix"  # imported when a process is started
    unused = (process, "tensorflow_io", "pyspark", "matplotlib", "pypinyin", "sentencepiece")
    done = _probe("tfrecord_builder.build", (*unused, "tqdm"), *where, "--num_workers=1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "loaded: tqdm"
    assert "Exception ignored" not in done.stderr  # the session is closed before TensorFlow is unloaded


@pytest.mark.parametrize("program", ["build", "verify", "show", "download"])
def test_help_does_not_import_tensorflow(program):
    unused = ("tensorflow", "pypinyin", "pyspark", "absl")
    done = _probe(f"tfrecord_builder.{program}", unused, "--help")
    assert "loaded: absl" in done.stdout.splitlines()
