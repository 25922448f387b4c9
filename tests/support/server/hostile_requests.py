"""Random HTTP requests that no honest client sends, as bytes.

make(random.Random(1)) -> (kind, bytes)
"""

import base64
import json
import random

import hostile_audio

make_speech = hostile_audio.make_speech
_PREDICT, _TRANSCRIBE = "/v1/models/asr:predict", "/v1/audio/transcriptions"


def make(rng: random.Random) -> tuple[str, bytes]:
    """Returns the name of a random kind, and a request of this kind."""
    kind = rng.choice(list(KINDS))
    return kind, KINDS[kind](rng)


def make_post(path: str, body: bytes, content_type="application/json", length=None, more=b"") -> bytes:
    """Returns a request; if `length` is not None, it replaces the true length in the header."""
    declared = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\n"
    return f"{head}content-length: {declared}\r\n".encode() + more + b"\r\n" + body


def make_form(audio: bytes, **fields) -> bytes:
    parts = [
        f'--boundary\r\ncontent-disposition: form-data; name="{n}"\r\n\r\n{v}\r\n' for n, v in fields.items()
    ]
    head = b'--boundary\r\ncontent-disposition: form-data; name="file"; filename="../../etc/passwd"\r\n\r\n'
    return "".join(parts).encode() + head + audio + b"\r\n--boundary--\r\n"


def post_form(audio: bytes, **fields) -> bytes:
    return make_post(_TRANSCRIBE, make_form(audio, **fields), "multipart/form-data; boundary=boundary")


def post_json(value, dumps=json.dumps) -> bytes:
    return make_post(_PREDICT, dumps(value).encode("utf-8", "surrogatepass"))


def post_wav(content: bytes) -> bytes:
    return post_json({"instances": [{"b64": base64.b64encode(content).decode()}]})


def make_costly() -> dict[str, bytes]:
    """Returns requests of allowed size that take a long time to process, keyed by kind."""
    low = hostile_audio.make_noise(24.0, 1000, "WAV", "PCM_U8")
    chunks = b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 2_700_000
    strings = b'{"instances": [' + b",".join([b'""'] * 3_600_000) + b"]}"
    fields = "".join(
        f'--boundary\r\ncontent-disposition: form-data; name="hotwords"\r\n\r\n{"," * 60_000}\r\n'
        for _ in range(90)
    ).encode()
    form = fields + make_form(make_speech())
    return {
        "much audio": post_json({"instances": [{"b64": base64.b64encode(low).decode()}] * 7}),
        "long recording": post_form(hostile_audio.make_noise(59.0, 16000, "FLAC", "PCM_16")),
        "many chunks": post_wav(chunks),
        "many strings": make_post(_PREDICT, strings),
        "many commas": make_post(_TRANSCRIBE, form, "multipart/form-data; boundary=boundary"),
    }


def _audio(make_audio, *posts):
    return lambda rng: rng.choice(posts)(make_audio(rng))


# Maps each kind to a function that makes a random request of this kind.
KINDS = {
    "random_audio": _audio(hostile_audio.make_random, post_form, post_wav),
    "lying_wav": _audio(hostile_audio.make_lying_wav, post_form, post_wav),
    "not_finite_wav": _audio(hostile_audio.make_not_finite, post_form, post_wav),
    "bomb": _audio(hostile_audio.make_bomb, post_form),
}


def _kind(function):
    KINDS[function.__name__[1:]] = function
    return function


@_kind
def _valid(rng) -> bytes:
    speech = make_speech()
    return rng.choice([post_wav(speech), post_form(speech, model="asr"), post_form(make_speech("FLAC"))])


@_kind
def _truncated(rng) -> bytes:
    request = _valid(rng)
    return request[: rng.randrange(len(request))]


@_kind
def _changed(rng) -> bytes:
    request = bytearray(_valid(rng))
    for _ in range(rng.choice([1, 3, 30])):
        request[rng.randrange(rng.choice([200, len(request)]))] = rng.randrange(256)
    return bytes(request)


@_kind
def _random(rng) -> bytes:
    return rng.randbytes(rng.choice([0, 1, 10, 1000, 100_000]))


@_kind
def _random_body(rng) -> bytes:
    body = rng.randbytes(rng.choice([0, 1, 10, 1000, 100_000]))
    path, kind = rng.choice(
        [(_PREDICT, "application/json"), (_TRANSCRIBE, "multipart/form-data; boundary=b")]
    )
    return make_post(path, body, kind)


@_kind
def _lying_length(rng) -> bytes:
    lengths = [-1, 10**30, "abc", "1 2", "0x10", 0, 1, 33 << 20, "", "１"]
    more = rng.choice(
        [b"", b"content-length: 7\r\n", b"transfer-encoding: chunked\r\n", b"content-encoding: gzip\r\n"]
    )
    path = rng.choice([_PREDICT, _TRANSCRIBE])
    return make_post(path, b'{"instances": []}', length=rng.choice(lengths), more=more)


@_kind
def _lying_chunks(rng) -> bytes:
    head = f"POST {_PREDICT} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    sizes = [b"-1", b"ffffffffffffffffff", b"5;x=y", b"zz", b"0", b"10"]
    return head + rng.choice(sizes) + b"\r\nabcde\r\n0\r\n\r\n"


@_kind
def _lying_header(rng) -> bytes:
    """Returns a request with an invalid header, or with too many or too long headers."""
    more = rng.choice(
        [
            b"x" * rng.choice([1000, 70_000]) + b": y\r\n",
            b"a: b\r\n" * rng.choice([10, 5000]),
            b"authorization: Bearer \xff\xfe\r\n",
            b"expect: 100-continue\r\n",
            b"upgrade: websocket\r\nconnection: upgrade\r\n",
            b"\0: \0\r\n",
            b"x: a\r\n folded\r\n",
        ]
    )
    return make_post(_PREDICT, b"{}", more=more)


@_kind
def _not_finite(rng) -> bytes:
    number = rng.choice(
        ["NaN", "Infinity", "-Infinity", "1e400", "1e38", "1e-400", "1" * 400, "true", '"1"', "null"]
    )
    count = rng.choice(["3", "-1", "1e9", "4", "9999999999", "NaN", "true", '"3"', "0"])
    row = f'{{"waveform": [0.1, {number}, 0.2], "num_samples": {count}}}'
    return make_post(_PREDICT, f'{{"signature_name": "waveform", "instances": [{row}]}}'.encode())


@_kind
def _deep(rng) -> bytes:
    depth = rng.choice([100, 10_000, 1_000_000])
    start, end = rng.choice([("[", "]"), ('{"instances":', "}"), ('{"instances": [', "]}")])
    return make_post(_PREDICT, (start * depth + "1" + rng.choice(["", end * depth])).encode())


@_kind
def _other_types(rng) -> bytes:
    """Returns a request in which some values have the wrong type."""
    value = rng.choice(
        [None, True, 3, -1.5, "x", [], {}, [[]], [{}], {"b64": 3}, {"b64": "é"}, {"b64": ""}, "\ud800"]
    )
    value = rng.choice([value, [value], {"wav_bytes": value}, [{"wav_bytes": value}], {"waveform": value}])
    name = rng.choice(
        ["serving_default", "waveform", "features", "waveform_hotwords", "language", "", None, 1, []]
    )
    return post_json({rng.choice(["instances", "inputs", "", "x"]): value, "signature_name": name})


@_kind
def _many_values(rng) -> bytes:
    count = rng.choice([10, 3000])
    return post_json(
        {"instances": rng.choice([[{"b64": "UklG"}] * count, [[0.0] * 100] * count, [""] * count])}
    )


@_kind
def _other_form(rng) -> bytes:
    """Returns a request with an invalid form."""
    body = make_form(make_speech(), **{rng.choice(["model", "hotwords", "response_format", "\r\n"]): "é" * 3})
    kind = rng.choice(
        ["; boundary=boundary", "", "; boundary=", "; boundary=" + "x" * 3000, "; boundary=\xe9"]
    )
    body = rng.choice(
        [body, body[:-14], body * 3, body.replace(b"name=", b"nam"), body.replace(b"\r\n\r\n", b"\r\n")]
    )
    if rng.random() < 0.3:
        body = body.replace(b'name="file"', b'name="file"; ' + b"x=y; " * 3000)
    return make_post(_TRANSCRIBE, body, "multipart/form-data" + kind)


@_kind
def _fields(rng) -> bytes:
    names = "response_format timestamp_granularities[] hotwords language temperature stream prompt".split()
    values = ["", "xml", "a,b," * 2000, "\0", "神雕侠侣", "x" * 60_000, "true", "-1", "verbose_json", "😀"]
    return post_form(make_speech(), **{rng.choice(names): rng.choice(values) for _ in range(3)})


@_kind
def _paths(rng) -> bytes:
    paths = "/../../etc/passwd // /%00 /page/..%2f..%2fserve.py /page/%2e%2e/app.py * x".split()
    paths += ["?" * 9000, "/v1/models/" + "a" * 60_000, "/v1/models/asr/versions/%ff:predict"]
    paths += ["/v1/models/asr/versions/-1", "http://other/v1/models/asr"]
    paths += ["/v1/models/asr:predict?x=" + "%" * 100, "/metrics", "/healthz", "/v1/models"]
    method = rng.choice(
        ["GET", "POST", "HEAD", "OPTIONS", "TRACE", "CONNECT", "PUT", "get", "PRI", "X" * 500]
    )
    version = rng.choice(["1.0", "1.1", "2.0", "9"])
    return f"{method} {rng.choice(paths)} HTTP/{version}\r\nhost: localhost\r\n\r\n".encode()


# Kinds of requests that are as long as they declare, so that the server answers them.
WHOLE = set(KINDS) - {*"truncated changed random lying_length lying_chunks lying_header paths".split()}
