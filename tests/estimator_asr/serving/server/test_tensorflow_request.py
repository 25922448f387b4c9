"""Requests to the predict API: their parsed form, and the error messages for invalid requests."""

import json
import threading

import numpy as np
import pytest
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import meta_graph_pb2

from estimator_asr.serving.server import api_errors, tensorflow_request


def make_input(dtype, *shape):
    info = meta_graph_pb2.TensorInfo(dtype=dtype)
    for size in shape:
        info.tensor_shape.dim.add(size=size)
    return info


WAV_BYTES = make_input(types_pb2.DT_STRING, -1)
WAVEFORM = {
    "waveform": make_input(types_pb2.DT_FLOAT, -1, -1),
    "num_samples": make_input(types_pb2.DT_INT32, -1),
}
DEFINITIONS = {
    "serving_default": meta_graph_pb2.SignatureDef(inputs={"wav_bytes": WAV_BYTES}),
    "serving_default_hotwords": meta_graph_pb2.SignatureDef(
        inputs={"wav_bytes": WAV_BYTES, "hotwords": WAV_BYTES}
    ),
    "waveform": meta_graph_pb2.SignatureDef(inputs=WAVEFORM),
    "features": meta_graph_pb2.SignatureDef(inputs={"fbank": make_input(types_pb2.DT_FLOAT, -1, -1, 2)}),
    "__saved_model_init_op": meta_graph_pb2.SignatureDef(),
}


def parse(content):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return tensorflow_request.parse(body, DEFINITIONS)


@pytest.mark.parametrize(
    "instance", [{"b64": "UklG"}, {"wav_bytes": {"b64": "UklG"}}, "RIF", {"wav_bytes": "RIF"}]
)
def test_the_only_input_needs_no_name(instance):
    call = parse({"instances": [instance]})
    assert call == tensorflow_request.Call("serving_default", [{"wav_bytes": b"RIF"}], (), False, ())


# TensorFlow Serving reads "b64" with absl::Base64Unescape (util/json_tensor.cc), which accepts these texts.
@pytest.mark.parametrize(
    "text, content",
    [
        ("UklG\nRg==\n", b"RIFF"),
        ("Ukl\r\n GRg =\t=\v\f", b"RIFF"),
        ("UklGRg", b"RIFF"),
        ("UklGRkY", b"RIFFF"),
        ("", b""),
        ("+/+/", b"\xfb\xff\xbf"),
    ],
)
def test_base64_is_accepted_as_in_tensorflow_serving(text, content):
    assert parse({"instances": [{"b64": text}]}).rows == [{"wav_bytes": content}]


@pytest.mark.parametrize("text", ["UklGRg=", "UklGR", "UklGRg==UklG", "-_-_", "UklG\u2028", "UklG\x00", "é"])
def test_invalid_base64_is_refused(text):
    with pytest.raises(api_errors.ApiError) as raised:
        parse({"instances": [{"b64": text}]})
    assert raised.value.message.startswith("instances[0].wav_bytes is not valid base64 (")


def test_columns_become_rows():
    call = parse(
        {"signature_name": "waveform", "inputs": {"waveform": [[0.5, 1], [2, 3]], "num_samples": [2, 1]}}
    )
    assert call.is_columnar and len(call.rows) == 2
    assert call.rows[1]["waveform"].tolist() == [2.0, 3.0]
    assert call.rows[1]["waveform"].dtype == np.float32
    assert call.rows[1]["num_samples"] == 1 and call.rows[1]["num_samples"].dtype == np.int32


def test_hotwords_apply_to_all_rows():
    inputs = {"wav_bytes": ["a", "b"], "hotwords": ["神雕侠侣"]}
    call = parse({"signature_name": "serving_default_hotwords", "inputs": inputs})
    assert call.rows == [{"wav_bytes": b"a"}, {"wav_bytes": b"b"}]
    assert call.hotwords == ("神雕侠侣",)


WAVES = {"signature_name": "waveform"}
ADVICE = "send fewer utterances, or send WAV files"


@pytest.mark.parametrize(
    "content, error",
    [
        (b"\xff", "the request is not valid JSON ("),
        (b"[" * 100_000, "the request is not valid JSON (it is nested too deeply)"),
        (b"[" + b"1" * 33 + b"]", "the request is not valid JSON (a number with 33 digits is too long)"),
        (b"0," * 4_000_001, f"the request has more than 4000000 JSON values; {ADVICE}"),
        ([1], "the request is a list, expected an object with 'instances' or 'inputs'"),
        ({}, "the request has neither 'instances' nor 'inputs'; send exactly one of them"),
        ({"instances": [], "inputs": []}, "the request has both 'instances' and 'inputs'; send exactly one"),
        ({"signature_name": "x", "instances": []}, "signature_name is 'x', expected one of features, serv"),
        ({"signature_name": "__saved_model_init_op", "instances": []}, "signature_name is '__saved"),
        ({"signature_name": ["x"], "instances": []}, "signature_name is "),
        ({"instances": {"b64": ""}}, "instances is an object, expected a list with one value"),
        ({"instances": [{"wav": ""}]}, "instances[0]: inputs are wav, expected wav_bytes"),
        ({**WAVES, "instances": [3]}, "instances[0]: inputs are none, expected num_samples, wa"),
        ({"inputs": {"b64": "UklG"}}, "inputs.wav_bytes is an object, expected a list with one value"),
        (
            {**WAVES, "inputs": {"waveform": [[0.0]], "num_samples": [1, 1]}},
            "inputs have different numbers of values (waveform has 1, num_samples has 2); send one value",
        ),
        (
            {**WAVES, "inputs": {"waveform": [[0.0]] * 2, "num_samples": [1, 2]}},
            "inputs.num_samples[1] is 2, expected 0 to 1, the length of waveform",
        ),
    ],
)
def test_invalid_requests_have_error_messages(content, error):
    with pytest.raises(api_errors.ApiError) as raised:
        parse(content)
    assert raised.value.status == 400
    assert raised.value.message.startswith(error)


@pytest.mark.parametrize(
    "instance, error",
    [
        (3, 'wav_bytes is 3, expected a string, or {"b64": BASE64} for bytes'),
        ({"b64": 3}, 'wav_bytes is an object, expected a string, or {"b64": BASE64} for bytes'),
        ({"fbank": [[0, 0, 0]]}, "fbank: shape is [1, 3], expected [None, 2]"),
        (([[1], 2], 1), "waveform has rows of different lengths; pad the shorter"),
        ((["1"], 1), 'waveform: a value is "1", expected float32'),
        ((["一\ud800"], 1), 'waveform: a value is "一\\ud800", expected float32'),
        (([True], 1), "waveform: a value is true, expected float32"),
        (([True, 0.5], 1), "waveform: a value is true, expected float32"),
        # As an array of text, this list would take 4 GB.
        (([0] * 100_000 + ["x" * 10_000], 1), f'waveform: a value is "{"x" * 40}'),
        (([10**30], 1), f"waveform: a value is {10**30}, expected float32"),
        (([0], 1.5), "num_samples: a value is 1.5, expected int32"),
        (([0], 2**31), "num_samples: a value is 2147483648, expected int32"),
        (([[0]], 1), "waveform: shape is [1, 1], expected [None]"),
        (([0], 2), "num_samples is 2, expected 0 to 1, the length of waveform"),
        (([0], -1), "num_samples is -1, expected 0 to 1, the length of waveform"),
    ],
)
def test_values_that_do_not_fit_the_signature(instance, error):
    """An instance that is a tuple has a waveform and its num_samples."""
    signature = "serving_default"
    if isinstance(instance, tuple):
        signature, instance = "waveform", dict(zip(("waveform", "num_samples"), instance))
    elif instance != 3 and "fbank" in instance:
        signature = "features"
    with pytest.raises(api_errors.ApiError) as raised:
        parse({"signature_name": signature, "instances": [instance]})
    assert raised.value.message.startswith(f"instances[0].{error}")


def test_numbers_beyond_float32_are_infinite():
    call = parse({"signature_name": "waveform", "instances": [{"waveform": [1e300], "num_samples": 1}]})
    assert call.rows[0]["waveform"].tolist() == [np.inf]


@pytest.mark.parametrize("content", [{"instances": ["x"] * 1001}, {"inputs": ["x"] * 1001}])
def test_too_many_utterances(content):
    """A request with millions of empty items would block all other requests."""
    with pytest.raises(api_errors.ApiError) as caught:
        parse(content)
    expected = "the request has 1001 utterances, expected at most 1000; send fewer"
    assert (caught.value.status, str(caught.value)) == (400, expected)
    assert len(parse({name: values[:1000] for name, values in content.items()}).rows) == 1000


@pytest.mark.parametrize("length", [-1, 4])
def test_a_number_of_frames_that_does_not_fit(length):
    inputs = {**DEFINITIONS["features"].inputs, "num_frames": WAVEFORM["num_samples"]}
    definitions = {"features": meta_graph_pb2.SignatureDef(inputs=inputs)}
    content = {"signature_name": "features", "inputs": {"fbank": [[[0, 0]] * 3], "num_frames": [length]}}
    said = rf"inputs.num_frames\[0\] is {length}, expected 0 to 3, the length of fbank"
    with pytest.raises(api_errors.ApiError, match=said):
        tensorflow_request.parse(json.dumps(content).encode(), definitions)


@pytest.mark.parametrize("content", ['{"instances": [%s]}', '{"inputs": {"wav_bytes": [%s]}}'])
def test_utterances_are_counted_before_they_are_read(monkeypatch, content):
    monkeypatch.setattr(tensorflow_request, "_read_value", None)
    with pytest.raises(api_errors.ApiError, match="the request has 300000 utterances, expected at most 1000"):
        tensorflow_request.parse((content % ",".join(['""'] * 300_000)).encode(), DEFINITIONS)


def test_other_threads_run_while_numbers_are_parsed():
    """The JSON decoder in C would hold the GIL for over three seconds for a four-minute waveform."""
    turns, is_over = [], threading.Event()

    def take_turns():
        while not is_over.wait(0.005):
            turns.append(1)

    thread = threading.Thread(target=take_turns)
    thread.start()
    body = b'{"instances": [' + b"1e-300," * 500_000 + b"0]}"
    with pytest.raises(api_errors.ApiError, match="signature_name is 'x'"):
        before = len(turns)
        tensorflow_request.parse(body.replace(b"{", b'{"signature_name": "x", ', 1), {})
    num_turns = len(turns) - before
    is_over.set()
    thread.join()
    assert num_turns > 5
