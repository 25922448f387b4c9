"""What tests of several files share."""

from __future__ import annotations

import dataclasses
import json
import sys

import paths
import pytest

# Begun first: at the end, one alone would leave the other cores idle.
LONG = (
    "test_main",
    "test_workers",
    "test_train",
    "test_resume",
    "test_replicas",
    "test_early_stopping",
    "test_memory",
)


def pytest_collection_modifyitems(items):
    order = {stem: index for index, stem in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


@pytest.fixture(autouse=True)
def _graphs_as_written(monkeypatch):
    """Sessions of this process do not optimise their graphs, which takes longer than to run tiny ones.

    Programs, in processes of their own, do.
    """
    if "tensorflow" not in sys.modules:
        return
    from tensorflow.python.client import session

    start = session.BaseSession.__init__

    def start_plain(self, target="", graph=None, config=None):
        config = config or session.config_pb2.ConfigProto()
        if not config.graph_options.HasField("rewrite_options"):
            config.graph_options.rewrite_options.disable_meta_optimizer = True
        start(self, target, graph, config)

    monkeypatch.setattr(session.BaseSession, "__init__", start_plain)


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
    import tiny_models  # loads TensorFlow, which most tests do without

    from estimator_asr.serving import saved_model_writer, trained_model

    path = tmp_path_factory.mktemp("tiny")
    acoustic_dir, language_dir, data_dir, export_dir = (
        str(path / name) for name in ("am", "lm", "data", "export")
    )
    tiny_models.make_acoustic_model(acoustic_dir)
    tiny_models.make_language_model(language_dir, tiny_models.OTHER_TOKENS)
    utterances = tiny_models.make_data(data_dir)
    models = (trained_model.open_trained_model(directory) for directory in (acoustic_dir, language_dir))
    version_dir = saved_model_writer.write(*models, export_dir)
    return TinyExport(acoustic_dir, language_dir, data_dir, utterances, export_dir, version_dir)


@pytest.fixture(scope="session")
def two_replicas() -> dict:
    """What the program two_replicas printed."""
    import programs

    done = programs.run(paths.SUPPORT / "two_replicas.py")
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
