"""Coverage-guided fuzzing of the code that reads requests: JSON, forms, uploaded audio, WAV in the graph.

    python -m pip install atheris==3.0.0
    python tests/fuzz/fuzz_requests.py [CORPUS_DIR] -max_total_time=600

The first byte of an input selects the reader. A reader may raise ApiError or UserError; any other exception,
or a crash, ends the run and writes the input to a file. Seeds and new inputs are kept in CORPUS_DIR, if it is
passed. All flags are libFuzzer's.
"""

import asyncio
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), *map(str, (ROOT / "tests" / "support").glob("**/"))]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import atheris
import numpy as np
import tensorflow as tf

with atheris.instrument_imports(
    include=["estimator_asr", "tfrecord_builder", "starlette", "python_multipart", "json"]
):
    from estimator_asr.exporting.saved_model import wav
    from estimator_asr.serving.server import (
        api_errors,
        openai_request,
        tensorflow_api,
        tensorflow_request,
        uploads,
    )
    from tfrecord_builder import errors
    from tfrecord_builder.audio import frontend

import hostile_requests
import wav_files

_RATE = 16000
FRONTEND = frontend.FrontendConfig()
_HOTWORDS = {"hotwords": (tf.string, [None])}
_SIGNATURES = {  # serving signatures of an export
    "serving_default": {"wav_bytes": (tf.string, [None])},
    "waveform": {"waveform": (tf.float32, [None, None]), "num_samples": (tf.int32, [None])},
    "features": {"fbank": (tf.float32, [None, None, 80]), "num_frames": (tf.int32, [None])},
}


def _define(inputs):
    with tf.Graph().as_default():
        tensors = {name: tf.compat.v1.placeholder(*each) for name, each in inputs.items()}
        infos = {name: tf.compat.v1.saved_model.build_tensor_info(each) for name, each in tensors.items()}
    return tf.compat.v1.saved_model.build_signature_def(infos)


DEFINITIONS = {
    **{name: _define(inputs) for name, inputs in _SIGNATURES.items()},
    **{f"{name}_hotwords": _define({**inputs, **_HOTWORDS}) for name, inputs in _SIGNATURES.items()},
}


def read_json(body: bytes) -> None:
    call = tensorflow_request.parse(body, DEFINITIONS)
    for row in call.rows:
        tensorflow_api.measure_seconds(row, FRONTEND)


def read_form(body: bytes) -> None:
    """Reads a form; the first line of `body` is the boundary."""
    boundary, _, rest = body.partition(b"\n")
    content_type = f"multipart/form-data; boundary={boundary.decode('latin-1')}"
    asyncio.run(openai_request.parse(rest, {"content-type": content_type}))


def read_upload(body: bytes) -> None:
    uploads.read(body, _RATE, 5.0)


def read_wav_seconds(body: bytes) -> None:
    assert tensorflow_api.measure_seconds({"wav_bytes": body}, FRONTEND) >= 0


@tf.function(input_signature=[tf.TensorSpec([], tf.string)])
def _decode(content):
    header = wav.read_headers(content[None], range(1000, 200_000))
    first = wav.Header(*(value[0] for value in header))
    return tf.cond(first.is_valid, lambda: wav.decode(content, first), lambda: tf.zeros([0]))


def read_wav(body: bytes) -> None:
    samples = _decode(tf.constant(body)).numpy()
    assert samples.ndim == 1 and len(samples) <= len(body)


READERS = (read_json, read_form, read_upload, read_wav_seconds, read_wav)


def test_one_input(data: bytes) -> None:
    """Calls the reader that the first byte selects with the remaining bytes."""
    if data:
        try:
            READERS[data[0] % len(READERS)](data[1:])
        except (api_errors.ApiError, errors.UserError) as error:
            assert getattr(error, "status", 400) < 500


def write_seeds(directory: pathlib.Path) -> None:
    """Writes one file for each seed."""
    directory.mkdir(parents=True, exist_ok=True)
    for index, (reader, body) in enumerate(list_seeds()):
        (directory / f"seed-{index}").write_bytes(bytes([READERS.index(reader)]) + body)


def list_seeds() -> list:
    """Returns (reader, an input that it accepts) for each seed."""
    wave = np.random.default_rng(3).normal(0, 0.1, 400)
    files = [wav_files.encode(wave, subtype=subtype) for subtype in ("PCM_16", "PCM_24", "FLOAT", "ALAW")]
    files += [wav_files.encode(wave, container=container) for container in ("FLAC", "WAVEX", "RF64")]
    calls = [
        '{"instances": [{"b64": "UklGRg=="}], "signature_name": "serving_default"}',
        '{"inputs": {"wav_bytes": ["x"], "hotwords": ["y"]}, "signature_name": "serving_default_hotwords"}',
        '{"instances": [{"waveform": [0.1, 1e3], "num_samples": 2}], "signature_name": "waveform"}',
        f'{{"inputs": {{"fbank": [[{[0] * 80}]], "num_frames": [1]}}, "signature_name": "features"}}',
    ]
    form = hostile_requests.make_form(b"RIFF", hotwords="a,b", response_format="srt")
    audio = [(reader, file) for reader in (read_upload, read_wav_seconds, read_wav) for file in files]
    return [*((read_json, call.encode()) for call in calls), (read_form, b"boundary\n" + form), *audio]


def main() -> None:
    folders = [each for each in sys.argv[1:] if not each.startswith("-")]
    with tempfile.TemporaryDirectory() as temporary:
        write_seeds(pathlib.Path((folders or [temporary])[0]))
        atheris.Setup([*sys.argv, *([] if folders else [temporary])], test_one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
