"""TensorFlow Serving's REST API over HTTP, compared with its protocol buffer messages."""

import base64
import concurrent.futures
import json
import struct
import time

import local_server
import numpy as np
import pytest
import tensorflow as tf
import wav_files
from google.protobuf import json_format
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, predict_pb2

from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.server import tensorflow_api, tensorflow_request
from tfrecord_builder.audio import frontend

PREDICT = "/v1/models/asr:predict"


@pytest.fixture(scope="module")
def server(tiny_export):
    with local_server.serve(tiny_export.export_dir) as started:
        yield started


@pytest.fixture(scope="module")
def waveforms(tiny_export):
    return [row[-1] for row in tiny_export.utterances.values()]


def to_b64(waveform, *kind):
    return {"b64": base64.b64encode(wav_files.encode(waveform, *kind)).decode()}


def test_status_is_a_message_of_tensorflow_serving(server, tiny_export):
    content = server.get("/v1/models/asr").json()
    assert set(content) == {"model_version_status", "id", "object", "created", "owned_by"}  # with OpenAI's
    message = get_model_status_pb2.GetModelStatusResponse()
    json_format.ParseDict(content, message, ignore_unknown_fields=True)
    (version,) = message.model_version_status
    assert str(version.version) == tiny_export.version_dir.rsplit("/", 1)[1]
    assert version.state == get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert version.status.error_code == 0
    assert server.get(f"/v1/models/asr/versions/{version.version}").json() == content


@pytest.mark.long
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
    served = {name: each for name, each in loaded.definitions.items() if name != "log_probs"}
    assert dict(definitions.signature_def) == served
    (wav_bytes,) = content["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"].items()
    assert wav_bytes[0] == "wav_bytes"
    assert wav_bytes[1]["dtype"] == "DT_STRING"
    assert wav_bytes[1]["tensor_shape"] == {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False}


@pytest.mark.long
def test_predict_returns_the_outputs_of_the_signature(server, tiny_export, waveforms):
    """A PredictRequest has the same outputs whether it is sent as JSON or run by the session."""
    loaded = recogniser.load_version(tiny_export.version_dir)
    request = predict_pb2.PredictRequest()
    request.inputs["wav_bytes"].CopyFrom(
        tf.make_tensor_proto([wav_files.encode(each) for each in waveforms[:2]])
    )
    inputs = {name: tf.make_ndarray(each) for name, each in request.inputs.items()}
    expected = loaded.find("serving_default").fetch(inputs)
    found = server.predict({"instances": [to_b64(each) for each in waveforms[:2]]}).json()["predictions"]
    assert set(found[0]) == set(loaded.definitions["serving_default"].outputs)
    for i in range(2):
        assert found[i]["transcript"] == expected["transcript"][i].decode()
        assert found[i]["acoustic_score"] == pytest.approx(float(expected["acoustic_score"][i]), rel=1e-5)
        written = [each.decode() for each in expected["characters.character"][i]]
        assert "".join(found[i]["characters.character"]) == "".join(written)


def test_columns_and_rows_return_the_same_values(server, waveforms):
    instance = {"wav_bytes": to_b64(waveforms[1])}
    rows = server.predict({"signature_name": "serving_default", "instances": [instance]})
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
    confidences = [each["confidence"] for each in alone]
    assert [each["confidence"] for each in together] == pytest.approx(confidences, rel=1e-3)


def test_hotwords_of_a_request(server, waveforms):
    inputs = {"wav_bytes": [to_b64(waveforms[1])], "hotwords": ["泥郝 ni3 hao3 1000"]}
    found = server.predict({"signature_name": "serving_default_hotwords", "inputs": inputs}).json()
    assert "泥郝" in found["outputs"]["transcript"][0]


def test_audio_is_aligned_with_tokens(server, waveforms):
    instances = [
        {"waveform": waveforms[1].tolist(), "num_samples": len(waveforms[1]), "tokens": tokens}
        for tokens in ("ni3 hao3 ma5", "hao3")
    ]
    rows = server.predict({"signature_name": "align", "instances": instances}).json()["predictions"]
    assert [row["tokens.token"] for row in rows] == [["ni3", "hao3", "ma5"], ["hao3", "", ""]]
    assert rows[0]["tokens.start"] == sorted(rows[0]["tokens.start"]) and rows[0]["status"] == "ok"
    assert all(score <= 0 for score in rows[0]["tokens.score"])


def test_log_probabilities_are_too_large_for_json(server, waveforms):
    instance = {"waveform": waveforms[1].tolist(), "num_samples": len(waveforms[1])}
    response = server.predict({"signature_name": "log_probs", "instances": [instance]})
    assert response.status_code == 400 and "log_probs" in response.json()["error"]


def test_concurrent_requests_get_their_own_results(server, waveforms):
    alone = [server.predict({"instances": [to_b64(each)]}).json()["predictions"][0] for each in waveforms]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        contents = [{"instances": [to_b64(each)]} for each in waveforms * 3]
        together = [each.json()["predictions"][0] for each in pool.map(server.predict, contents)]
    assert [each["transcript"] for each in together] == [each["transcript"] for each in alone] * 3
    sizes = server.parts.metrics.format().decode()
    assert 'asr_batch_size_bucket{le="1.0"}' in sizes


def test_an_empty_list_of_instances_has_no_predictions(server):
    assert server.predict({"instances": []}).json() == {"predictions": []}


@pytest.mark.parametrize(
    "path, error",
    [
        ("/v1/models/other", "model is 'other', expected 'asr'"),
        ("/v1/models/asr/versions/3", "version is '3', expected the current version, '"),
        ("/v1/models/asr/versions/3/metadata", "version is '3', expected the current version, '"),
        ("/v1/models/asr/versions/1:predict", "version is '1:predict', expected the current version, '"),
        ("/v1/models/asr/labels/stable", "GET /v1/models/asr/labels/stable: Not Found; see docs/serve.md"),
    ],
)
def test_other_models_and_versions_are_not_found(server, path, error):
    response = server.get(path)
    assert response.status_code == 404
    assert response.json()["error"].startswith(error)


def refuse(response, error: str) -> None:
    assert response.status_code == 400 and response.json()["error"].startswith(error)


def test_invalid_json_has_an_error_message(server):
    refuse(server.post(PREDICT, data=b"[["), "the request is not valid JSON (")


def test_hotwords_that_the_graph_refuses_have_its_message(server, waveforms):
    inputs = {"wav_bytes": [to_b64(waveforms[1])], "hotwords": ["泥郝 ni3"]}
    response = server.predict({"signature_name": "serving_default_hotwords", "inputs": inputs})
    problem = "泥郝 ni3 has 2 characters and 1 syllables, expected one syllable for each character"
    refuse(response, f"hotwords: {problem}; fix it")


def test_base64_with_line_breaks_and_without_padding(server, waveforms):
    text = to_b64(waveforms[1])["b64"]
    wrapped = "\n".join(text[start : start + 76] for start in range(0, len(text), 76)).rstrip("=")
    found = server.predict({"instances": [{"b64": wrapped}]}).json()
    assert found == server.predict({"instances": [{"b64": text}]}).json()
    assert found["predictions"][0]["status"] == "ok"


def test_empty_columns_have_empty_outputs(server):
    response = server.predict({"signature_name": "waveform", "inputs": {"waveform": [], "num_samples": []}})
    assert response.status_code == 200
    outputs = response.json()["outputs"]
    assert {"transcript", "status", "n_best.score"} <= set(outputs)
    assert all(column == [] for column in outputs.values())


def test_the_audio_of_a_request_is_limited_like_a_recording(server):
    """26 items of 24 s at 1 kHz are small, but would take a minute to recognise."""
    wav = to_b64(np.zeros(24000), 1000, "PCM_U8")
    problem = "the request has 625 s of audio (limit: 600 s)"  # the bytes of the headers count too
    refuse(server.predict({"instances": [wav] * 26}), f"{problem}; send fewer utterances")
    assert server.predict({"instances": [wav] * 2}).status_code == 200


def test_shorter_lists_of_characters_and_transcripts_are_padded_as_in_the_graph():
    results = [
        {"transcript": "你好", "n_best": [{"score": -1.25}, {"score": -2.0}], "characters": []},
        {"transcript": "", "n_best": [{"score": -3.0}], "characters": [{"character": "b", "start": 0.5}]},
    ]
    outputs = ("characters.character", "characters.start", "n_best.score", "transcript")
    call = tensorflow_request.Call("serving_default", [], (), False, outputs)
    lowest = float(str(np.finfo(np.float32).min))
    first = {"characters.character": [""], "characters.start": [0.0], "n_best.score": [-1.25, -2.0]}
    second = {"characters.character": ["b"], "characters.start": [0.5], "n_best.score": [-3.0, lowest]}
    assert json.loads(tensorflow_api.format_response(call, results)) == {
        "predictions": [{**first, "transcript": "你好"}, {**second, "transcript": ""}]
    }
    only = call._replace(is_columnar=True, outputs=("characters.character",))
    assert tensorflow_api.format_response(only, results) == b'{"outputs": [[""], ["b"]]}'


def test_columns_without_values_have_an_empty_response():
    outputs = dict.fromkeys(("transcript", "n_best.score"), meta_graph_pb2.TensorInfo())
    inputs = {"wav_bytes": meta_graph_pb2.TensorInfo(dtype=types_pb2.DT_STRING)}
    definitions = {"serving_default": meta_graph_pb2.SignatureDef(inputs=inputs, outputs=outputs)}
    call = tensorflow_request.parse(b'{"inputs": {"wav_bytes": []}}', definitions)
    assert call.rows == []
    empty = {"transcript": [], "n_best.score": []}
    assert json.loads(tensorflow_api.format_response(call, [])) == {"outputs": empty}
    only = call._replace(outputs=("transcript",))
    assert json.loads(tensorflow_api.format_response(only, [])) == {"outputs": []}
    rows = call._replace(is_columnar=False)
    assert json.loads(tensorflow_api.format_response(rows, [])) == {"predictions": []}


def measure(**row):
    return tensorflow_api.measure_seconds(row, frontend.FrontendConfig())


@pytest.mark.parametrize(
    "rate, channels, subtype", [(8000, 1, "PCM_U8"), (16000, 1, "PCM_16"), (48000, 2, "FLOAT")]
)
def test_a_wav_file_is_measured_by_its_header(rate, channels, subtype):
    content = wav_files.encode(np.zeros([3 * rate, channels]), rate, subtype)
    assert measure(wav_bytes=content) == pytest.approx(3.0, rel=0.01)


def test_a_streamed_wav_file_is_measured_to_its_end():
    content = wav_files.encode(np.zeros(16000))
    assert measure(wav_bytes=content[:40] + bytes(4) + content[44:]) == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("kind", [b"RF64", b"BW64"])
def test_wrong_sizes_in_headers_are_ignored(kind):
    """Like the model, uses the size of the `data` chunk if it has one."""
    content = kind + wav_files.encode(np.zeros(16000), container="RF64")[4:]
    assert content[12:16] == b"ds64" and b"data\xff\xff\xff\xff" in content
    content = content[:28] + struct.pack("<Q", 2) + content[36:]
    content = content.replace(b"data\xff\xff\xff\xff", b"data" + struct.pack("<I", 32000), 1)
    assert measure(wav_bytes=content) == pytest.approx(1, rel=0.01)


def test_the_first_of_two_format_chunks_counts():
    """libsndfile refuses such a file, but the model reads it: as 10 s at 1 kHz, not as 0.6 s at 16 kHz."""
    content = wav_files.encode(np.zeros(10_000), 1000, "PCM_U8")
    assert measure(wav_bytes=content[:36] + content[12:36] + content[36:]) == pytest.approx(10, rel=0.01)


@pytest.mark.parametrize(
    "row, seconds",
    [
        ({"wav_bytes": b"x" * 32000}, 2.0),  # without a header, bytes count as 8-bit audio
        ({"wav_bytes": b""}, 0.0),
        ({"waveform": np.zeros(8000), "num_samples": np.int32(10)}, 0.5),
        ({"fbank": np.zeros([50, 80]), "num_frames": np.int32(50)}, 0.5),
        ({"pinyin": b"ni3 hao3"}, 0.4),
    ],
)
def test_other_inputs_are_measured_in_seconds(row, seconds):
    assert measure(**row) == seconds


def test_a_file_of_a_million_chunks_is_measured_at_once():
    started = time.process_time()
    content = b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 1_000_000
    assert measure(wav_bytes=content) == pytest.approx(8_000_012 / 16000)
    assert time.process_time() - started < 0.1
