"""Fixtures of several test files, and the order of the tests."""

from __future__ import annotations

import dataclasses
import fcntl
import gc
import json
import logging
import os
import pathlib
import pickle
import sys
import tempfile
import time

import paths
import program_flags
import pytest

# More threads than cores only wait for each other, also in the programs that tests start.
for _variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
):
    os.environ.setdefault(_variable, "1")

# Nothing is left in the user's cache, and nothing is found there; fonts are listed once for all runs.
os.environ.setdefault("MPLCONFIGDIR", os.path.expanduser("~/.cache/matplotlib"))
_cache = tempfile.TemporaryDirectory()
os.environ["XDG_CACHE_HOME"] = _cache.name

# Begun first: at the end, one alone would leave the other cores idle.
_FIRST = (
    "test_main",
    "test_train_replicas",
    "test_workers",
    "test_resume",
    "test_encode",
    "test_remote_data",
    "test_examples",
    "test_replicas",
    "test_train",
    "test_stopping",
    "test_synthesise",
)


def pytest_collection_modifyitems(items):
    order = {stem: index for index, stem in enumerate(_FIRST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


def pytest_runtest_setup(item):
    """Skips the slow tests from the second TESTS_END (Unix time) on: .ci/run has a time limit."""
    if item.get_closest_marker("slow") and time.time() > float(os.environ.get("TESTS_END", "inf")):
        pytest.skip("the time for slow tests has ended")


@pytest.fixture(scope="module", autouse=True)
def _databases_are_closed():
    """Fails the last test of a file that leaves an SQLite database open; older Pythons do not report one."""
    yield
    if sys.version_info >= (3, 13):
        gc.collect()


@pytest.fixture
def log():
    """The lines that absl logs during a test, from level INFO on."""
    logger, lines, handler = logging.getLogger("absl"), [], logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield lines
    logger.setLevel(level)
    logger.removeHandler(handler)


@pytest.fixture
def graph():
    """An empty graph of TensorFlow, which is the default one during the test."""
    import tensorflow as tf  # most tests do without it

    with tf.Graph().as_default() as graph:
        tf.compat.v1.set_random_seed(1)
        yield graph


@pytest.fixture
def session(graph):
    """A session in a graph of its own."""
    import tensorflow as tf

    with tf.compat.v1.Session(graph=graph) as session:
        yield session


def _build_once(tmp_path_factory, name: str, build) -> pathlib.Path:
    """Returns a directory that build(directory) filled in the first worker of the run that asked for it."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    directory = root / name
    with open(root / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            build(root / f"{name}.building")
            os.rename(root / f"{name}.building", directory)
    return directory


@dataclasses.dataclass(frozen=True)
class TinyExport:
    """Untrained models, data and an export of both models; tests only read them."""

    acoustic_dir: str
    language_dir: str
    data_dir: str
    utterances: dict[str, tuple]
    export_dir: str
    version_dir: str


@pytest.fixture(scope="session")
def tiny_export(tmp_path_factory) -> TinyExport:
    path = _build_once(tmp_path_factory, "tiny", _build_tiny_export)
    utterances = pickle.loads((path / "utterances").read_bytes())
    (version_dir,) = (path / "export").iterdir()
    names = ("am", "lm", "data")
    paths_of = (str(path / name) for name in names)
    return TinyExport(*paths_of, utterances, str(path / "export"), str(version_dir))


def _build_tiny_export(path):
    import tiny_models  # loads TensorFlow, which most tests do without

    from estimator_asr.exporting.saved_model import saved_model_writer, trained_model

    path.mkdir()
    tiny_models.make_acoustic_model(str(path / "am"))
    tiny_models.make_language_model(str(path / "lm"), tiny_models.OTHER_TOKENS)
    utterances = tiny_models.make_data(str(path / "data"))
    (path / "utterances").write_bytes(pickle.dumps(utterances))
    models = (trained_model.open_trained_model(str(path / name)) for name in ("am", "lm"))
    saved_model_writer.write(*models, str(path / "export"))


@pytest.fixture(scope="session")
def streaming_export(tmp_path_factory) -> str:
    """An export directory of untrained models, the acoustic one of which streams in chunks of 160 ms."""
    return str(_build_once(tmp_path_factory, "streaming", _build_streaming_export) / "export")


def _build_streaming_export(path):
    import tiny_models

    from estimator_asr.exporting.saved_model import saved_model_writer, trained_model

    path.mkdir()
    tiny_models.make_acoustic_model(str(path / "am"), chunk_frames=16)
    tiny_models.make_language_model(str(path / "lm"), tiny_models.OTHER_TOKENS)
    models = (trained_model.open_trained_model(str(path / name)) for name in ("am", "lm"))
    saved_model_writer.write(*models, str(path / "export"))


@pytest.fixture(scope="session")
def punctuated_export(tmp_path_factory) -> str:
    """An export directory of untrained models, also a punctuation model; the acoustic model streams."""
    return str(_build_once(tmp_path_factory, "punctuated", _build_punctuated_export) / "export")


def _build_punctuated_export(path):
    import tiny_models

    from estimator_asr.exporting.saved_model import saved_model_writer, trained_model

    path.mkdir()
    tiny_models.make_acoustic_model(str(path / "am"), chunk_frames=16)
    tiny_models.make_language_model(str(path / "lm"), tiny_models.OTHER_TOKENS)
    tiny_models.make_punctuation_model(str(path / "pm"))
    models = [trained_model.open_trained_model(str(path / name)) for name in ("am", "lm", "pm")]
    saved_model_writer.write(*models[:2], str(path / "export"), punctuation=models[2])


@pytest.fixture(scope="session")
def two_replicas(tmp_path_factory) -> dict:
    """What the program two_replicas printed."""
    path = _build_once(tmp_path_factory, "two_replicas", _run_two_replicas)
    return json.loads((path / "result.json").read_text())


def _run_two_replicas(path):
    import programs

    done = programs.run(paths.script("two_replicas.py"))
    assert done.returncode == 0, done.stderr[-3000:]
    path.mkdir()
    (path / "result.json").write_text(done.stdout.splitlines()[-1])


@pytest.fixture(scope="session")
def program_answers(tmp_path_factory) -> dict[str, dict]:
    """Flags of each program, and its flag files as it parses them; see program_flags.ask."""
    return json.loads((_build_once(tmp_path_factory, "flags", _ask_programs) / "answers.json").read_text())


def _ask_programs(path):
    path.mkdir()
    (path / "answers.json").write_text(json.dumps(program_flags.ask_all()))
