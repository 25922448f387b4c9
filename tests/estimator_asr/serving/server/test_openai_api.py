"""OpenAI's transcription API, with OpenAI's client and with plain requests."""

import dataclasses
import functools
import io
import json
import threading

import local_server
import numpy as np
import openai
import pytest
import recognition_results
import soundfile
import telephone_files

from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.server import service

PATH = "/v1/audio/transcriptions"
NO_FILE = "the form has no field named file; send the recording as a file in this field"


@pytest.fixture(scope="module")
def server(tiny_export):
    with local_server.serve(tiny_export.export_dir, max_audio_seconds=100.0) as started:
        yield started


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(api_key="none", base_url=server.url("/v1"), max_retries=0)


@pytest.fixture(scope="module")
def create(client):
    """Returns a function that transcribes a file with OpenAI's client."""
    return functools.partial(client.audio.transcriptions.create, model="asr")


@pytest.fixture(scope="module")
def expected(tiny_export, waveform):
    model = recogniser.load(tiny_export.version_dir, "waveform")
    batch = {"waveform": waveform[None], "num_samples": [len(waveform)]}
    return {name: value for name, (value,) in model.run(batch).items()}


def encode(waveform, format="WAV", rate=16000, **arguments):
    file = io.BytesIO()
    soundfile.write(file, waveform, rate, format=format, **arguments)
    file.seek(0)
    file.name = f"a.{format.lower()}"
    return file


def post(server, content, **fields):
    return server.post(PATH, files={"file": ("a.wav", content)}, data={"model": "asr", **fields})


def refuse(response, error: str) -> None:
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert response.json()["error"]["message"].startswith(error)


@pytest.mark.parametrize("format", ["WAV", "FLAC", "OGG", "MP3"])
def test_the_client_of_openai_gets_text_for_each_audio_format(create, waveform, expected, format):
    found = create(file=encode(waveform, format))
    assert isinstance(found.text, str)
    assert format in ("OGG", "MP3") or found.text == expected["transcript"] != ""


@pytest.mark.parametrize("kind", telephone_files.KINDS)
def test_recordings_of_telephones(server, kind):
    response = post(server, telephone_files.encode(kind), response_format="verbose_json")
    assert response.status_code == 200
    assert response.json()["duration"] == pytest.approx(2, abs=0.15)


def test_the_status_of_a_recording_that_was_cut_off(server, waveform, expected):
    content = encode(waveform).read()
    response = post(server, content[:40] + bytes(4) + content[44:], response_format="verbose_json")
    assert (response.json()["text"], response.json()["status"]) == (expected["transcript"], "unfinished")
    assert post(server, content, response_format="verbose_json").json()["status"] == "ok"


def test_a_truncated_recording_of_a_telephone(server):
    content = telephone_files.encode("m4a", movflags="faststart")
    sentence = "file: audio is truncated: it ends within a frame; copy the file again or remove it"
    refuse(post(server, content[: len(content) // 2]), sentence)


def test_recordings_with_another_rate_and_two_channels(server, waveform):
    stereo = np.stack([waveform, waveform], axis=1).repeat(3, axis=0)
    response = post(server, encode(stereo, rate=48000), language="zh", prompt="p")
    assert response.status_code == 200


def test_text_and_captions(create, waveform, expected):
    def ask(format):
        return create(file=encode(waveform), response_format=format)

    assert ask("text") == expected["transcript"] + "\n"
    assert ask("srt").startswith("1\n00:00:00,")
    assert expected["transcript"] in ask("srt")
    assert ask("vtt").startswith("WEBVTT\n\n00:00:00.")


def test_verbose_json(create, waveform, expected):
    found = create(
        file=encode(waveform), response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    assert (found.text, found.language, found.task) == (expected["transcript"], "zh", "transcribe")
    assert found.duration == pytest.approx(len(waveform) / 16000, abs=0.001)
    words = [(each.word, each.start, each.end) for each in found.words]
    assert words == [(each["character"], each["start"], each["end"]) for each in expected["characters"]]
    (segment,) = found.segments
    assert (segment.id, segment.text, segment.start) == (0, expected["transcript"], 0.0)
    assert segment.end == pytest.approx(len(waveform) / 16000, abs=0.001)
    assert found.status == "ok"
    assert found.pinyin == expected["pinyin"]
    assert found.n_best[0]["transcript"] == expected["n_best"][0]["transcript"]
    assert found.characters[0]["pinyin"] == expected["characters"][0]["pinyin"]


def test_hotwords(create, waveform):
    found = create(file=encode(waveform), extra_body={"hotwords": "泥郝 ni3 hao3 1000\n犇，好 9、A4"})
    assert "泥郝" in found.text


def test_silence_has_an_empty_transcript(server):
    response = post(server, encode(np.zeros(16000)), response_format="verbose_json")
    content = response.json()
    assert (response.status_code, content["text"], content["status"]) == (200, "", "silent")
    assert content["segments"][0]["no_speech_prob"] == 1.0


@pytest.mark.long
def test_a_long_recording_without_speech(server):
    response = post(server, encode(np.zeros(16000 * 40), "FLAC"), response_format="verbose_json")
    content = response.json()
    assert (content["text"], content["status"], content["segments"]) == ("", "silent", [])
    assert content["duration"] == 40.0
    for format in ("json", "text", "srt", "vtt"):
        assert post(server, encode(np.zeros(16000 * 40), "FLAC"), response_format=format).status_code == 200


def test_models_are_listed(client):
    (model,) = client.models.list().data
    assert (model.id, model.owned_by) == ("asr", "estimator_asr")
    assert client.models.retrieve("asr").id == "asr"
    assert client.models.retrieve("asr").created == model.created > 0
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("whisper-1")


def test_the_client_finds_the_id_of_its_request(create, waveform):
    found = create(file=encode(waveform), extra_headers={"x-request-id": "meeting-7"})
    assert found._request_id == "meeting-7"
    with pytest.raises(openai.BadRequestError) as caught:
        create(file=("a.wav", b""))
    assert len(caught.value.request_id) == 32


@pytest.mark.parametrize(
    "changes, language",
    [
        ({}, "zh"),
        ({"language": None, "token_type": "syllable"}, "zh"),
        ({"language": None, "token_type": "bpe"}, "und"),
        ({"language": None, "token_type": "character"}, "und"),
    ],
)
def test_the_language_is_that_of_the_model(create, server, waveform, monkeypatch, changes, language):
    version = server.parts.versions.current
    monkeypatch.setattr(version, "info", dataclasses.replace(version.info, **changes))
    found = create(file=encode(waveform), response_format="verbose_json", language="en")
    assert found.language == language


def test_the_client_of_openai_raises_the_error_message(create):
    message = r"file: the file cannot be read as WAV, FLAC, Ogg, MP3, .* or MPEG-TS"
    with pytest.raises(openai.BadRequestError, match=message):
        create(file=("a.wav", b"not audio"))


@pytest.mark.parametrize(
    "fields, error",
    [
        ({"response_format": "xml"}, "one of json, text, srt, vtt, verbose_json; fix or omit the field"),
        ({"response_format": "diarized_json"}, "one of json, "),
        ({"timestamp_granularities[]": "line"}, "one of word, segment"),
        ({"stream": "maybe"}, "true or false; fix or omit the field"),
        *(
            ({"temperature": value}, "a number from 0 to 1; fix")
            for value in ("1.1", "-0.1", ".", "9e-0", "nan")
        ),
        ({"include[]": "logprobs"}, "no value; fix or omit the field"),
        ({"chunking_strategy[type]": "server_vad"}, "auto"),
        ({"known_speaker_names[]": "a"}, "no value"),
    ],
)
def test_invalid_fields_have_error_messages(server, waveform, fields, error):
    ((name, value),) = fields.items()
    refuse(post(server, encode(waveform), **fields), f"{name} is {value!r}, expected {error}")


@pytest.mark.parametrize(
    "fields, error",
    [
        ({"keywords[]": ["好 x9"]}, "hotwords: word 1: "),
        ({"hotwords": "好 x9"}, "hotwords: word 1: "),
        ({"hotwords": "好\n" * 1001}, "the request has 1001 hotwords, expected at most 1000; send fewer"),
        (
            {"hotwords": ["," * 40_001, "," * 40_000]},
            "the hotwords and their separators have 80001 characters, expected at most 80000; send fewer",
        ),
    ],
)
def test_invalid_hotwords_have_error_messages(server, waveform, fields, error):
    refuse(post(server, encode(waveform), **fields), error)


def test_the_client_of_openai_knows_which_field_is_invalid(create, waveform):
    with pytest.raises(openai.BadRequestError, match="stream is 'maybe', expected true or false") as caught:
        create(file=encode(waveform), extra_body={"stream": "maybe"})
    assert caught.value.param == "stream"


def test_unused_fields_are_accepted(create, waveform, expected):
    fields = {"temperature": 1e-05, "chunking_strategy": "auto", "stream": False, "prompt": "p\nq"}
    found = create(
        model="x", file=encode(waveform), extra_body={"languages": ["en"], "response_format": ""}, **fields
    )
    assert found.text == expected["transcript"]


@pytest.mark.parametrize("temperature", ["0", "0.0", ".3", "1", "1.0", "1.", "2.5e-7"])
def test_temperatures(server, waveform, temperature):
    assert post(server, encode(waveform), temperature=temperature).status_code == 200


def test_keywords_are_hotwords(server, waveform):
    words = ["泥郝 ni3 hao3 1000", "犇"]
    found, same = (post(server, encode(waveform), **{name: words}) for name in ("keywords[]", "hotwords"))
    assert found.json() == same.json() != post(server, encode(waveform)).json()


@pytest.mark.parametrize(
    "content, error",
    [
        (b"", "file is empty; send a recording"),
        (encode(np.zeros(0)).getvalue(), "file: "),
        (encode(np.full(16000, np.nan), subtype="FLOAT").getvalue(), "file contains NaN or Inf samples"),
        (encode(np.full(16000, 1e13), subtype="FLOAT").getvalue(), "file: the peak is 1e+13, but full scale"),
        (encode(np.zeros(1616000), "FLAC").getvalue(), "file: audio is longer than 100 s; send a shorter"),
        (encode(np.zeros(16000), "FLAC").getvalue()[:-1000], "file is empty"),
    ],
    ids=("nothing", "no samples", "NaN", "too loud", "too long", "truncated"),
)
def test_invalid_audio_has_an_error_message(server, content, error):
    refuse(post(server, content), error)


@pytest.mark.parametrize(
    "body, kind, error",
    [
        (b"{}", "application/json", "the content type is 'application/json', expected"),
        (b"", "multipart/form-data", "the request is not valid multipart/form-data ("),
        (b"xx", "multipart/form-data; boundary=b", "the request is not valid multipart/form-data ("),
        (b"--b--\r\n", "multipart/form-data; boundary=b", NO_FILE),
        (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n\r\n'
            b'--b\r\nContent-Disposition: form-data; name="include[+2AA-"\r\n\r\nx\r\n--b--\r\n',
            "multipart/form-data; boundary=b; charset=utf-7",  # decodes to a lone surrogate
            "include[\\ud800 is 'x', expected no value",
        ),
    ],
)
def test_invalid_forms_have_error_messages(server, caplog, body, kind, error):
    refuse(server.post(PATH, data=body, headers={"content-type": kind}), error)
    assert caplog.messages == []


@pytest.mark.parametrize(
    "disposition",
    [
        'form-data; name="file"',
        "form-data; name=file",
        "form-data; filename*=UTF-8''%E4%BC%9A%E8%AE%AE.wav; name=\"file\"",
        "form-data; name=\"file\"; filename*=UTF-8''%E4%BC%9A%E8%AE%AE.wav",
        'form-data; name="file"; filename=""',
        'Form-Data; Name="file"; FileName="会议.wav"',
    ],
)
@pytest.mark.parametrize("kind", ["multipart/form-data", "Multipart/Form-Data"])
def test_the_part_named_file_is_a_file_whatever_its_header_says(server, waveform, disposition, kind):
    content = encode(np.resize(waveform, 48000)).getvalue()
    assert len(content) > 1 << 16
    head = f"--b\r\nContent-Disposition: {disposition}\r\nContent-Type: audio/wav\r\n\r\n".encode()
    model = b'\r\n--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nasr\r\n--b--\r\n'
    headers = {"content-type": f"{kind}; boundary=b"}
    response = server.post(PATH, data=head + content + model, headers=headers)
    assert response.status_code == 200
    assert response.json()["text"] == post(server, content).json()["text"] != ""


def test_two_files_are_refused_even_without_names(server):
    part = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\nx\r\n'
    headers = {"content-type": "multipart/form-data; boundary=b"}
    response = server.post(PATH, data=2 * part + b"--b--\r\n", headers=headers)
    assert response.status_code == 400
    assert "Too many files" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    "method, path, status",
    [
        ("POST", "/v1/chat/completions", 404),
        ("GET", "/v1/files", 404),
        ("POST", "/v1/audio/translations", 404),
        ("GET", "/v1/audio/transcriptions", 405),
        ("POST", "/v1/models", 405),
    ],
)
def test_unknown_paths_have_errors_in_openai_format(server, method, path, status):
    response = server.session.request(method, server.url(path), timeout=60)
    reason = {404: "Not Found", 405: "Method Not Allowed"}[status]
    message = f"{method} {path}: {reason}; see docs/serve.md"
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    assert (response.status_code, response.json()) == (status, {"error": error})


def test_the_name_of_a_file_is_never_opened(server, tmp_path, waveform):
    (tmp_path / "secret.wav").write_bytes(b"x")
    for name in (str(tmp_path / "secret.wav"), "../../etc/passwd", "s3://bucket/a.wav"):
        files = {"file": (name, encode(waveform))}
        assert server.post(PATH, files=files, data={"model": "asr"}).status_code == 200


def test_hotwords_need_a_model_that_supports_them(waveform, server, monkeypatch):
    monkeypatch.delitem(server.parts.versions.current.definitions, "waveform_hotwords")
    sentence = "the model does not support hotwords, because it is"
    refuse(post(server, encode(waveform), hotwords="好"), sentence)


@pytest.mark.long
def test_no_request_waits_until_the_dictionary_of_hotwords_is_loaded(tiny_export, monkeypatch):
    read = threading.Event()
    monkeypatch.setattr(service.hotword_list, "read_words", lambda words, source: read.set())
    with local_server.serve(tiny_export.export_dir):
        assert read.wait(30)


@pytest.mark.long
@pytest.mark.usefixtures("loud_is_speech")
class TestPunctuation:
    """An export with a punctuation model; the recording is cut into segments."""

    @pytest.fixture(scope="class")
    def server(self, punctuated_export):
        with local_server.serve(punctuated_export) as started:
            yield started

    @pytest.fixture(scope="class")
    def recording(self, tiny_export):
        """A recording of 23 s with a pause of 1.5 s."""
        speech = np.concatenate([row[-1] for row in tiny_export.utterances.values()] * 2)
        return np.concatenate([speech, np.zeros(24000, np.float32), speech[:112000]])

    def ask(self, server, recording, **fields):
        defaults = {"response_format": "verbose_json", "timestamp_granularities[]": ["word", "segment"]}
        return post(server, encode(recording), **{**defaults, **fields})

    def test_text_words_and_segments_are_written(self, server, recording):
        found = self.ask(server, recording).json()
        assert recognition_results.remove_marks(found["text"]) == found["transcript"] != found["text"]
        assert "".join(word["word"] for word in found["words"]) == found["text"]
        assert "".join(segment["text"] for segment in found["segments"]) == found["text"]
        assert len(found["segments"]) > 1
        items = found["characters"]
        assert "".join(item["character"] + item["mark"] for item in items) == found["text"]
        assert [(word["start"], word["end"]) for word in found["words"]] == [
            (item["start"], item["end"]) for item in items
        ]
        text = self.ask(server, recording, response_format="text").text
        assert "".join(text.split()) == found["text"]

    def test_the_plain_text(self, server, recording):
        written = self.ask(server, recording).json()
        plain = self.ask(server, recording, text_form="plain").json()
        assert plain["text"] == written["transcript"] and "transcript" not in plain
        assert "".join(word["word"] for word in plain["words"]) == plain["text"]
        sentence = "text_form is 'x', expected one of written, plain; fix"
        refuse(self.ask(server, recording, text_form="x"), sentence)

    @pytest.mark.parametrize("form", ["written", "plain"])
    def test_events(self, server, recording, form):
        response = self.ask(server, recording, stream="true", text_form=form)
        *deltas, done = (json.loads(line[6:]) for line in response.text.split("\n\n") if line)
        assert "".join(event["delta"] for event in deltas) == done["text"]
        assert (recognition_results.remove_marks(done["text"]) == done["text"]) == (form == "plain")

    def test_the_signature_punctuate(self, server):
        rows = [{"characters": "你 好 吗", "pauses": [0.0, 0.5, 1.0]}, {"characters": "", "pauses": [0.0]}]
        found = server.predict({"signature_name": "punctuate", "instances": rows}).json()["predictions"]
        assert [row["status"] for row in found] == ["ok", "empty"]
        assert len(found[0]["marks"]) == 3 and not any(found[1]["marks"])
        assert all(mark in ("", *recognition_results.MARKS) for mark in found[0]["marks"])
