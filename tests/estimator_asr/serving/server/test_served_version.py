"""A served version: its session, the exports that are refused, and error messages from the graph."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from estimator_asr.exporting.saved_model import export_info, recogniser
from estimator_asr.serving.server import served_version
from tfrecord_builder import errors


@pytest.fixture(scope="module")
def version(tiny_export):
    loaded = served_version.ServedVersion(tiny_export.version_dir)
    yield loaded
    loaded.retire()


@pytest.mark.long
def test_a_version_in_use_keeps_its_session(export_dir):
    """A request uses the version from before its body was parsed, even if another one takes over."""
    version = served_version.ServedVersion(str(export_dir / "1"))
    batch = [
        {"waveform": np.float32(np.random.default_rng(1).normal(0, 0.1, 8000)), "num_samples": np.int32(8000)}
    ]
    with version.used():
        version.retire()
        assert len(version.run("waveform", (), batch)) == 1
    with pytest.raises(RuntimeError, match="closed"):
        version.run("waveform", (), batch)


def rename_status(graph: bytes) -> bytes:
    return graph.replace(b"\n\x06status\x12", b"\n\x06stAtus\x12")


def remove_waveform(graph: bytes) -> bytes:
    saved_model = saved_model_pb2.SavedModel.FromString(graph)
    del saved_model.meta_graphs[0].signature_def["waveform"]
    return saved_model.SerializeToString()


@pytest.mark.parametrize(
    "change, missing", [(rename_status, "output status"), (remove_waveform, "signature waveform")]
)
def test_exports_of_other_releases_are_refused(export_dir, change, missing):
    path = export_dir / "1"
    (path / "saved_model.pb").write_bytes(change((path / "saved_model.pb").read_bytes()))
    export_info.load(str(path)).save(str(path))  # updates the digest of the graph
    message = f"1 has no {missing}, so it is from another release; export the model again"
    with pytest.raises(errors.UserError, match=message):
        served_version.ServedVersion(str(path))


NODE = "\n\t [[{{node Assert/Assert}}]]"
OLD = "泥郝 ni3 has 2 characters and 1 syllables, expected one syllable for each character; fix it"


@pytest.mark.parametrize(
    "message, sentence",
    [
        (
            "assertion failed: [E_AUDIO_TOO_LONG: audio: any [improved] sentence]" + NODE,
            "audio: any [improved] sentence",
        ),
        (
            "assertion failed: [E_HOTWORD_SYLLABLES: hotwords: [泥] fix them]" + NODE,
            "hotwords: [泥] fix them",
        ),
        (f"assertion failed: [hotwords: {OLD}]" + NODE, f"hotwords: {OLD}"),  # from exports of release 0.1.0
        (
            "assertion failed: [waveform: is too short]" + NODE,  # also from release 0.1.0
            "the model rejected the inputs (assertion failed: [waveform: is too short] "
            "[[{{node Assert/Assert}}]])",
        ),
    ],
)
def test_error_messages_of_the_graph(version, message, sentence, monkeypatch):
    def refuse(*_):
        raise tf.errors.InvalidArgumentError(None, None, message)

    monkeypatch.setattr(recogniser.Recogniser, "run", refuse)
    with pytest.raises(errors.UserError) as refused:
        version.run("waveform", (), [version.make_probe()])
    assert str(refused.value) == sentence


def test_a_length_that_the_graph_refuses_has_its_message(version):
    row = {"waveform": np.zeros(3, np.float32), "num_samples": np.int32(5)}
    with pytest.raises(errors.UserError) as refused:
        version.run("waveform", (), [row])
    assert str(refused.value) == (
        "num_samples is [5], expected one length from 0 to 3 for each of the 1 rows of waveform; "
        "send the true lengths"
    )
