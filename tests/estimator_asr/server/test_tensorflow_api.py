"""TensorFlow Serving's REST API over HTTP, with a tiny export; the contract is that of its own messages."""

from __future__ import annotations

import base64
import concurrent.futures
import io

import local_server
import numpy as np
import pytest
import soundfile
import tensorflow as tf
from google.protobuf import json_format
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    predict_pb2,
)

from estimator_asr.saved_model import recogniser

PREDICT = "/v1/models/asr:predict"


@pytest.fixture(scope="module")
def server(tiny_export):
    with local_server.serve(tiny_export.export_dir) as started:
        yield started


@pytest.fixture(scope="module")
def waveforms(tiny_export):
    return [row[-1] for row in tiny_export.utterances.values()]


def make_wav(waveform):
    file = io.BytesIO()
    soundfile.write(file, waveform, 16000, format="WAV", subtype="PCM_16")
    return file.getvalue()


def to_b64(waveform):
    return {"b64": base64.b64encode(make_wav(waveform)).decode()}


def test_status_is_a_message_of_tensorflow_serving(server, tiny_export):
    content = server.get("/v1/models/asr").json()
    assert set(content) == {"model_version_status", "id", "object", "created", "owned_by"}  # OpenAI's, too
    message = get_model_status_pb2.GetModelStatusResponse()
    json_format.ParseDict(content, message, ignore_unknown_fields=True)
    (version,) = message.model_version_status
    assert str(version.version) == tiny_export.version_dir.rsplit("/", 1)[1]
    assert version.state == get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert version.status.error_code == 0
    assert server.get(f"/v1/models/asr/versions/{version.version}").json() == content


def test_metadata_is_a_message_of_tensorflow_serving(server, tiny_export):
    content = server.get("/v1/models/asr/metadata").json()
    assert content["model_spec"] == {
        "name": "asr",
        "signature_name": "",
        "version": tiny_export.version_dir.rsplit("/", 1)[1],
    }
    definitions = json_format.ParseDict(
        content["metadata"]["signature_def"], get_model_metadata_pb2.SignatureDefMap()
    )
    loaded = recogniser.load_version(tiny_export.version_dir)
    assert dict(definitions.signature_def) == dict(loaded.definitions)
    (wav_bytes,) = content["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"].items()
    assert wav_bytes[0] == "wav_bytes"
    assert wav_bytes[1]["dtype"] == "DT_STRING"
    assert wav_bytes[1]["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}


def test_predict_returns_what_the_signature_does(server, tiny_export, waveforms):
    """The same PredictRequest, as JSON and run by the session."""
    loaded = recogniser.load_version(tiny_export.version_dir)
    request = predict_pb2.PredictRequest()
    request.inputs["wav_bytes"].CopyFrom(tf.make_tensor_proto([make_wav(each) for each in waveforms[:2]]))
    inputs = {name: tf.make_ndarray(each) for name, each in request.inputs.items()}
    expected = loaded.find("serving_default").fetch(inputs)
    found = server.predict({"instances": [to_b64(each) for each in waveforms[:2]]}).json()["predictions"]
    assert set(found[0]) == set(loaded.definitions["serving_default"].outputs)
    for i in range(2):
        assert found[i]["transcript"] == expected["transcript"][i].decode()
        assert found[i]["acoustic_score"] == pytest.approx(float(expected["acoustic_score"][i]), rel=1e-5)
        written = [each.decode() for each in expected["characters.character"][i]]
        assert "".join(found[i]["characters.character"]) == "".join(written)


def test_columns_and_rows_return_the_same(server, waveforms):
    rows = server.predict(
        {"signature_name": "serving_default", "instances": [{"wav_bytes": to_b64(waveforms[1])}]}
    )
    columns = server.predict({"inputs": {"wav_bytes": [to_b64(waveforms[1])]}}).json()["outputs"]
    assert {name: values[0] for name, values in columns.items()} == rows.json()["predictions"][0]
    assert server.predict({"inputs": [to_b64(waveforms[1])]}).json()["outputs"] == columns


def test_waveforms_of_different_lengths_in_one_request(server, waveforms):
    instances = [
        {"waveform": each[:9000].tolist()[: 9000 - 1000 * i], "num_samples": 9000 - 1000 * i}
        for i, each in enumerate(waveforms[2:4])
    ]
    together = server.predict({"signature_name": "waveform", "instances": instances}).json()["predictions"]
    alone = [
        server.predict({"signature_name": "waveform", "instances": [each]}).json()["predictions"][0]
        for each in instances
    ]
    assert [each["transcript"] for each in together] == [each["transcript"] for each in alone]
    assert [each["confidence"] for each in together] == pytest.approx(
        [each["confidence"] for each in alone], rel=1e-3
    )


def test_hotwords_of_a_request(server, waveforms):
    inputs = {"wav_bytes": [to_b64(waveforms[1])], "hotwords": ["泥郝 ni3 hao3 1000"]}
    found = server.predict({"signature_name": "serving_default_hotwords", "inputs": inputs}).json()
    assert "泥郝" in found["outputs"]["transcript"][0]


def test_requests_at_one_time_get_their_own_results(server, waveforms):
    alone = [server.predict({"instances": [to_b64(each)]}).json()["predictions"][0] for each in waveforms]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        contents = [{"instances": [to_b64(each)]} for each in waveforms * 3]
        together = [each.json()["predictions"][0] for each in pool.map(server.predict, contents)]
    assert [each["transcript"] for each in together] == [each["transcript"] for each in alone] * 3
    sizes = server.parts.metrics.format().decode()
    assert 'asr_batch_size_bucket{le="1.0"}' in sizes


def test_no_instances(server):
    assert server.predict({"instances": []}).json() == {"predictions": []}


@pytest.mark.parametrize(
    "path, error",
    [
        ("/v1/models/other", "model: is 'other', expected 'asr'"),
        ("/v1/models/asr/versions/3", "version: is '3', expected '"),
        ("/v1/models/asr/versions/3/metadata", "version: is '3', expected '"),
        ("/v1/models/asr/labels/stable", "GET /v1/models/asr/labels/stable: Not Found; see docs/serve.md"),
    ],
)
def test_what_is_not_served(server, path, error):
    response = server.get(path)
    assert response.status_code == 404
    assert response.json()["error"].startswith(error)


def test_predict_needs_post(server):
    response = server.get("/v1/models/asr/versions/1:predict")
    assert response.status_code in (404, 405)
    assert set(response.json()) == {"error"}


def test_a_request_that_is_wrong_is_one_sentence(server):
    response = server.post(PREDICT, data=b"[[")
    assert response.status_code == 400
    assert response.json()["error"].startswith("request: is not valid JSON (")


def test_hotwords_that_the_graph_refuses(server, waveforms):
    inputs = {"wav_bytes": [to_b64(waveforms[1])], "hotwords": ["泥郝 ni3"]}
    response = server.predict({"signature_name": "serving_default_hotwords", "inputs": inputs})
    assert response.status_code == 400
    assert response.json()["error"].startswith("inputs: are refused by the model (")
    assert not response.json()["error"].endswith("(Graph execution error:)")


def test_a_length_beyond_the_waveform_is_refused(server):
    instance = {"waveform": np.zeros(100).tolist(), "num_samples": 101}
    response = server.predict({"signature_name": "waveform", "instances": [instance]})
    assert response.status_code == 400
    assert (
        response.json()["error"]
        == "instances[0].num_samples: is 101, expected 0 to 100; send how much there is"
    )


def test_empty_columns_have_empty_outputs(server):
    response = server.predict({"signature_name": "waveform", "inputs": {"waveform": [], "num_samples": []}})
    assert response.status_code == 200
    outputs = response.json()["outputs"]
    assert {"transcript", "status", "n_best.score"} <= set(outputs)
    assert all(column == [] for column in outputs.values())


def test_a_request_has_as_much_audio_as_a_recording(server):
    """26 items of 24 s at 1 kHz are small, and would be recognised for a minute."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros(24000), 1000, format="WAV", subtype="PCM_U8")
    wav = {"b64": base64.b64encode(file.getvalue()).decode()}
    response = server.predict({"instances": [wav] * 26})
    assert response.status_code == 400
    # The bytes of the header count too.
    expected = "request: has 625 s of audio, expected at most 600 s; send fewer utterances"
    assert response.json()["error"] == expected
    assert server.predict({"instances": [wav] * 2}).status_code == 200
