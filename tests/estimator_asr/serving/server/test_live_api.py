"""/v1/stream with the websockets client, and streamed transcriptions with OpenAI's client."""

import asyncio
import base64
import contextlib
import io
import json
import time

import local_server
import numpy as np
import openai
import programs
import pytest
import recognition_results
import soundfile
import soxr
import telephone_files
import wav_files
from starlette import websockets
from websockets import exceptions
from websockets.sync import client as websocket_client

from estimator_asr.serving.server import api_errors, live_api, served_version

RATE = 16000
RATES = "expected 8000 to 192000 Hz; send the sample rate of the audio"
pytestmark = pytest.mark.usefixtures("loud_is_speech")


@pytest.fixture(scope="module")
def server(tiny_export):
    with local_server.serve(tiny_export.export_dir, max_audio_seconds=100.0, max_body_seconds=3.0) as started:
        yield started


def connect(server, query="", **arguments):
    return websocket_client.connect(f"ws://127.0.0.1:{server.port}/v1/stream{query}", **arguments)


def to_pcm(waveform) -> bytes:
    return np.round(np.clip(waveform, -1, 1) * 32767).astype("<i2").tobytes()


def send(socket, content: bytes, size=3200) -> None:
    for place in range(0, len(content), size):
        socket.send(content[place : place + size])
    socket.send(json.dumps({"end": True}))


def read(socket) -> list[dict]:
    """Returns all messages until the server closes the connection."""
    messages = []
    with contextlib.suppress(exceptions.ConnectionClosed):
        while True:
            messages.append(json.loads(socket.recv(timeout=60)))
    return messages


def talk(server, content: bytes, query="", size=3200, hotwords=None) -> list[dict]:
    """Sends a stream with a message for every `size` bytes; returns all messages from the server."""
    with connect(server, query) as socket:
        if hotwords is not None:
            socket.send(json.dumps({"hotwords": hotwords}))
        send(socket, content, size)
        return read(socket)


def upload(server, waveform, **fields) -> dict:
    data = {"response_format": "verbose_json", "timestamp_granularities[]": "word", **fields}
    return server.post(
        "/v1/audio/transcriptions", files={"file": wav_files.encode(waveform)}, data=data
    ).json()


@pytest.mark.parametrize("query, hotwords", [("", ""), ("?encoding=f32le", ""), ("", "{0},{1}")])
def test_the_final_transcript_is_that_of_an_upload(server, waveform, query, hotwords):
    samples = np.round(waveform * 32767) / 32768
    word = upload(server, samples)["text"][:2]
    hotwords = hotwords.format(word, word[::-1])
    content = samples.astype("<f4").tobytes() if query else to_pcm(waveform)
    *_, final = talk(server, content, query, hotwords=hotwords.replace(",", "\n"))
    assert final.pop("type") == "final"
    assert final["text"] and final == upload(server, samples, hotwords=hotwords)


def test_stable_text_never_changes(server, waveform):
    speech = np.concatenate([waveform, np.zeros(RATE * 3 // 2, np.float32), waveform])
    *partial, final = talk(server, to_pcm(speech), size=16000)
    assert 'asr_requests_total{route="stream",status="101"}' in server.get("/metrics").text
    assert len(partial) >= 2
    stable, characters = "", []
    for each in partial:
        assert each["type"] == "partial" and each["text"] == each["stable"] + each["partial"]
        assert each["stable"].startswith(stable) and each["first"] <= len(characters)
        assert each["num_stable"] == len(each["stable"])
        stable, characters = each["stable"], characters[: each["first"]] + each["characters"]
    assert final["text"] == stable != "" and final["characters"] == characters


@pytest.mark.long
def test_a_streaming_model_processes_each_sample_once(streaming_export, waveform, monkeypatch):
    calls = []
    run = served_version.ServedVersion.run

    def record(version, signature, hotwords, rows):
        calls.append((signature, sum(len(row.get("waveform", ())) for row in rows)))
        return run(version, signature, hotwords, rows)

    monkeypatch.setattr(served_version.ServedVersion, "run", record)
    speech = np.concatenate([waveform] * 5)
    with local_server.serve(streaming_export) as server:
        calls.clear()
        with connect(server) as socket:
            for place in range(0, len(speech), 4000):
                socket.send(to_pcm(speech[place : place + 4000]))
                time.sleep(0.25)
            socket.send(json.dumps({"end": True}))
            *partial, final = read(socket)
        pieces = [length for signature, length in calls if signature == "stream"]
        assert len(pieces) >= 3 and sum(pieces) <= len(speech)
        assert [length for signature, length in calls if signature == "waveform"] == [len(speech)]
        assert len(partial) >= 3 and partial[0]["text"] and partial[0]["characters"][0]["end"] > 0
        assert final["text"]
        before = len(calls)
        *_, final = talk(server, to_pcm(speech), hotwords="你好")  # does not use the streaming signature
        assert final["type"] == "final"
        assert not [signature for signature, _ in calls[before:] if signature == "stream"]
        assert not [name for name in server.parts.versions.current.definitions if "stream" in name]


@pytest.mark.long
@pytest.mark.parametrize("hotwords", ["", "你好"])
def test_live_text_has_marks_and_settled_text_never_changes(punctuated_export, waveform, hotwords):
    """Without hotwords, the streaming signature is used, and the marks come from another signature."""
    speech = np.concatenate([*[waveform] * 5, np.zeros(RATE * 3 // 2, np.float32), *[waveform] * 3])
    with local_server.serve(punctuated_export) as server:
        with connect(server) as socket:
            socket.send(json.dumps({"hotwords": hotwords}))
            for place in range(0, len(speech), 4000):
                socket.send(to_pcm(speech[place : place + 4000]))
                time.sleep(0.05)
            socket.send(json.dumps({"end": True}))
            *partial, final = read(socket)
        *_, plain = talk(server, to_pcm(speech), "?text_form=plain")
        with connect(server, "?text_form=spoken") as socket:
            assert read(socket)[-1]["error"]["message"].startswith("text_form is 'spoken', expected")
    stable, characters, written = "", [], []
    for each in partial:
        assert each["text"] == each["stable"] + each["partial"] and each["stable"].startswith(stable)
        stable, characters = each["stable"], characters[: each["first"]] + each["characters"]
        written = written[: each["written"]["first"]] + each["written"]["characters"]
    assert [item["character"] for item in written] == [item["word"] for item in final["words"]]
    assert each["written"]["num_stable"] == len(written)
    assert len(partial) >= 3 and final["text"] == stable
    marked = "".join(item["character"] + item["mark"] for item in characters)
    assert marked == stable == "".join(word["word"] for word in final["words"])
    assert recognition_results.remove_marks(stable) == final["transcript"] != stable
    assert final["characters"] == characters
    assert "transcript" not in plain and not set(recognition_results.MARKS) & set(plain["text"])


def test_samples_at_another_rate_are_resampled(server, waveform):
    content = soxr.resample(waveform, RATE, 48000).astype("<f4").tobytes()
    *_, final = talk(server, content, "?sample_rate=48000&encoding=f32le", 48000)
    assert final["text"] and final["duration"] == pytest.approx(len(waveform) / RATE, abs=0.001)


def test_hotwords_after_audio_are_refused(server, waveform):
    with connect(server) as socket:
        socket.send(to_pcm(waveform))
        socket.send(json.dumps({"hotwords": "你好"}))
        *_, answer = read(socket)
    message = "hotwords arrived after audio; send hotwords before the first samples"
    assert answer["error"]["message"] == message


def test_silence_and_empty_streams_have_an_empty_transcript(server):
    for content in (bytes(2 * RATE), b""):
        *_, final = talk(server, content)
        assert (final["text"], final["status"], final["characters"]) == ("", "silent", [])


@pytest.mark.parametrize(
    "query, message, sentence",
    [
        ("?encoding=mp3", None, "encoding is 'mp3', expected s16le or f32le"),
        ("?sample_rate=4", None, f"sample_rate is '4', {RATES}"),
        ("?sample_rate=²", None, f"sample_rate is '²', {RATES}"),
        ("", b"\0", "the message has 1 bytes, expected a multiple of 2 up to 262144; send whole samples"),
        ("", bytes(300000), "the message has 300000 bytes, expected a multiple of 2 up to 262144; send"),
        ("?encoding=f32le", np.float32("nan").tobytes(), "the message has NaN or Inf samples"),
        ("?encoding=f32le", np.float32(1e13).tobytes(), "the message has NaN or Inf"),
        ("", "{", "the message is '{', expected "),
        ("", "[" * 10000, "expected "),
        ("", '{"end": 1}', "the message is '{\"end\": 1}', expected "),
        ("", '{"stop": true}', "expected "),
        ("", '{"hotwords": "' + "字" * 500 + '"}', "a hotword has 500 characters"),
        ("", '{"hotwords": "\\ud800"}', "expected "),
        ("", '{"hotwords": "' + "," * 300000 + '"}', "expected "),
    ],
    ids=range(14),
)
def test_invalid_input_has_an_error_message(server, query, message, sentence):
    with connect(server, query) as socket:
        if message is not None:
            socket.send(message)
        (answer,) = read(socket)
    assert answer["type"] == "error" and sentence in answer["error"]["message"]
    assert socket.close_code == 1008


def test_a_message_that_is_far_too_large_ends_the_stream(server):
    with connect(server) as socket:
        with pytest.raises(exceptions.ConnectionClosedError):
            socket.send(bytes(2 << 20))
            socket.recv(timeout=10)


def to_file(waveform, format: str) -> bytes:
    if format in telephone_files.KINDS:
        return telephone_files.encode(format)
    file = io.BytesIO()
    soundfile.write(file, waveform, RATE, format=format)
    return file.getvalue()


@pytest.mark.parametrize("format", ["RF64", "MP3", "FLAC", "OGG", "webm", "m4a", "aac"])
@pytest.mark.parametrize("query, size", [("", 3202), ("?encoding=f32le", 3201), ("", 10)])
def test_audio_files_are_refused_instead_of_samples(server, waveform, format, query, size):
    content = to_file(waveform, format)[:3210]
    with connect(server, query) as socket:
        socket.send(json.dumps({"hotwords": "你好"}))
        socket.send(b"")
        with contextlib.suppress(exceptions.ConnectionClosed):
            for place in range(0, len(content), size):
                socket.send(content[place : place + size])
        (answer,) = read(socket)
    assert answer["error"]["message"] == (
        "the message begins like an audio file, but must contain only samples, without a header; "
        "send only the samples of one channel, or send the whole file to /v1/audio/transcriptions"
    )
    assert socket.close_code == 1008


def test_later_samples_that_look_like_a_file_are_accepted(server, waveform):
    with connect(server) as socket:
        socket.send(to_pcm(waveform))
        send(socket, to_file(waveform, "FLAC")[:6400])
        assert read(socket)[-1]["type"] == "final"


def test_the_header_of_a_wav_file_with_matching_samples_is_removed(server, waveform):
    contents = to_pcm(waveform), wav_files.encode(np.round(waveform * 32767).astype(np.int16))
    finals = [talk(server, content, size=4096)[-1] for content in contents]
    assert finals[0] == finals[1] and finals[0]["text"] != ""


@pytest.mark.parametrize("query", ["?sample_rate=8000", "?encoding=f32le"])
def test_a_wav_file_of_other_samples_is_refused(server, waveform, query):
    with connect(server, query) as socket:
        socket.send(to_file(waveform, "WAV")[:3200])
        (answer,) = read(socket)
    assert answer["error"]["message"].startswith("the message begins like an audio file, but must contain ")


@pytest.mark.parametrize("parts", [(b"\xff\xfe",), (b'{"hotwords": "\xe5', b'\x25"}')])
def test_text_that_is_not_utf_8_ends_the_stream_without_a_traceback(server, caplog, parts):
    with connect(server) as socket:
        socket.send([each for each in parts] if len(parts) > 1 else parts[0], text=True)
        with pytest.raises(exceptions.ConnectionClosedError):
            socket.recv(timeout=30)
    assert socket.close_code == 1007
    assert caplog.messages == []


@pytest.mark.long
def test_a_client_that_sends_nothing_is_timed_out(server):
    with connect(server) as socket:
        (answer,) = read(socket)
    problem = "the stream has only 0 s of audio after 3 s and may fall at most 3 s behind"
    assert problem in answer["error"]["message"]


@pytest.mark.long
def test_messages_without_audio_do_not_keep_a_stream_alive(server):
    began, is_open = time.monotonic(), True
    with connect(server) as socket:
        while is_open and time.monotonic() < began + 20:
            with contextlib.suppress(TimeoutError):
                is_open = json.loads(socket.recv(timeout=0.2))["type"] != "error"
            if is_open:
                socket.send(b"")
    assert not is_open and time.monotonic() - began > 2.5


def test_a_client_that_reads_nothing_is_dropped(server, waveform, monkeypatch):
    monkeypatch.setattr(live_api, "_SEND_SECONDS", 0.5)
    monkeypatch.setattr(websockets.WebSocket, "send_text", lambda *_: asyncio.sleep(60))
    version = server.parts.versions.current
    assert talk(server, to_pcm(waveform)) == []
    programs.wait_until(lambda: not version.num_users)


def test_a_failure_of_the_model_has_an_error_message(server, waveform, monkeypatch):
    async def fail(batch, is_urgent=False):
        raise RuntimeError("bug")

    monkeypatch.setattr(server.parts.batcher, "recognise", fail)
    with connect(server) as socket:
        send(socket, to_pcm(waveform))
        *_, answer = read(socket)
    assert answer["error"]["message"] == "the server failed; see its log for details"
    assert socket.close_code == 1011


def test_interim_results_wait_while_the_queue_is_crowded(server, waveform, monkeypatch):
    crowded = property(lambda self: True)
    monkeypatch.setattr(type(server.parts.batcher), "is_crowded", crowded)
    messages = talk(server, to_pcm(np.resize(waveform, 5 * RATE)))
    assert [each["type"] for each in messages] == ["partial", "final"]


def test_an_unknown_websocket_path_is_counted_as_refused(server):
    with pytest.raises(exceptions.InvalidStatus) as refused:
        with websocket_client.connect(f"ws://127.0.0.1:{server.port}/v1/none"):
            pass
    assert refused.value.response.status_code == 403
    assert 'asr_requests_total{route="other",status="403"}' in server.get("/metrics").text


def test_audio_that_is_too_long_ends_the_stream(server, waveform):
    with connect(server) as socket:
        with pytest.raises(exceptions.ConnectionClosed):
            for _ in range(2000):
                socket.send(to_pcm(np.resize(waveform, RATE)))
        *_, answer = read(socket)
    problem = "the stream's audio is longer than 100 s; start another stream"
    assert answer["error"]["message"].startswith(problem)


def test_a_client_that_disconnects_leaves_no_work_behind(server, waveform):
    batcher, version = server.parts.batcher, server.parts.versions.current
    for _ in range(3):
        with connect(server) as socket:
            socket.send(to_pcm(np.resize(waveform, RATE)))
            socket.socket.close()  # without the closing handshake
    programs.wait_until(lambda: not version.num_users and not batcher.queue.items)


def test_a_full_queue_only_delays_results(server, waveform, monkeypatch):
    recognise, refused = server.parts.batcher.recognise, []

    async def refuse_first(batch, is_urgent=False):
        if not refused:
            refused.append(batch)
            raise api_errors.overloaded("is busy", 1)
        return await recognise(batch, is_urgent)

    monkeypatch.setattr(live_api, "_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(server.parts.batcher, "recognise", refuse_first)
    *_, final = talk(server, to_pcm(waveform))
    assert refused and final["text"]


@pytest.mark.long
def test_a_token_as_a_header_or_a_subprotocol(tiny_export):
    encoded = base64.urlsafe_b64encode(b"secret?").decode().rstrip("=")
    with local_server.serve(tiny_export.export_dir, token="secret?") as server:
        for arguments in (
            {"additional_headers": {"Authorization": "Bearer secret?"}},
            {"subprotocols": ["asr", f"bearer.{encoded}"]},
        ):
            with connect(server, **arguments) as socket:
                send(socket, b"")
                assert read(socket)[-1]["type"] == "final"
                assert socket.subprotocol == arguments.get("subprotocols", [None])[0]
        for arguments in ({}, {"subprotocols": ["asr", "bearer.c2Vjcm"]}):
            with pytest.raises(exceptions.InvalidStatus) as refused:
                connect(server, **arguments)
            assert refused.value.response.status_code == 401


def test_a_page_of_another_site_is_refused(server):
    with pytest.raises(exceptions.InvalidStatus) as refused:
        connect(server, origin="http://evil.example")
    assert refused.value.response.status_code == 403
    assert b"are refused; use this server's own page" in refused.value.response.body
    with connect(server, origin=f"http://127.0.0.1:{server.port}") as socket:
        send(socket, b"")
        assert read(socket)[-1]["type"] == "final"


def test_headers_of_a_stream_are_limited(server):
    headers = {f"x-{i}": "y" * 6000 for i in range(3)}
    with pytest.raises(exceptions.InvalidStatus) as refused, connect(server, additional_headers=headers):
        pass
    assert refused.value.response.status_code == 400
    assert b"bytes, expected at most 16384; shorten them" in refused.value.response.body


@pytest.mark.long
def test_a_server_that_stops_ends_its_streams(tiny_export):
    with contextlib.ExitStack() as stack:
        with local_server.serve(tiny_export.export_dir, stop_seconds=1) as server:
            socket = stack.enter_context(connect(server))
        with pytest.raises(exceptions.ConnectionClosed):
            socket.recv(timeout=10)


class TestServerSentEvents:
    @pytest.fixture(scope="class")
    def client(self, server):
        return openai.OpenAI(api_key="none", base_url=server.url("/v1"), max_retries=0)

    def stream(self, client, waveform):
        file = ("a.wav", wav_files.encode(waveform))
        return list(client.audio.transcriptions.create(model="asr", file=file, stream=True))

    @pytest.mark.long
    def test_the_client_of_openai_iterates_over_segments(self, client, server, waveform):
        pause = np.zeros(RATE * 2, np.float32)
        speech = np.concatenate([np.resize(waveform, 9 * RATE), pause, np.resize(waveform, 8 * RATE)])
        *deltas, done = self.stream(client, speech)
        assert [each.type for each in deltas] == ["transcript.text.delta"] * 2
        assert done.type == "transcript.text.done"
        assert done.text == "".join(each.delta for each in deltas) == upload(server, speech)["text"]

    def test_silence(self, client):
        *_, done = self.stream(client, np.zeros(20 * RATE))
        assert (done.type, done.text) == ("transcript.text.done", "")

    def test_refused_requests_fail_before_the_stream_begins(self, server):
        form = {"files": {"file": b"no audio"}, "data": {"stream": "true"}}
        assert server.post("/v1/audio/transcriptions", **form).status_code == 400

    @pytest.mark.parametrize(
        "seconds, error, kind",
        [
            (0.0, api_errors.overloaded("is busy", 1), openai.RateLimitError),  # before the stream begins
            (0.05, api_errors.refuse("the model rejected the inputs"), openai.APIError),
        ],
    )
    def test_failures_are_reported(self, client, server, waveform, monkeypatch, seconds, error, kind):
        async def fail(batch, is_urgent=False):
            if seconds:
                await asyncio.sleep(seconds)
            raise error

        monkeypatch.setattr(server.parts.batcher, "recognise", fail)
        with pytest.raises(kind, match=str(error)):
            self.stream(client, waveform)
