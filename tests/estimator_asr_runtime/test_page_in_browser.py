"""The page in a browser: files, the microphone, errors, a phone's width, and no requests to other servers."""

import contextlib
import functools
import http.server
import json
import os
import threading

import browser
import node
import numpy as np
import pytest
import soundfile

from estimator_asr_runtime import model, recogniser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        browser.find() is None, reason="no chromium or google-chrome is installed: apt-get install chromium"
    ),
    node.NEEDS_ONNXRUNTIME_WEB,
]


@contextlib.contextmanager
def serve(directory: str):
    """Serves a folder as `python -m http.server` does; yields its URL and the list of requested paths."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            asked.append(self.path)

    handler = functools.partial(Handler, directory=directory)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", asked
        server.shutdown()


@pytest.fixture(scope="module")
def exports():
    pytest.importorskip("tensorflow")
    import format_exports

    return format_exports


@pytest.fixture(scope="module")
def export(exports, tmp_path_factory) -> str:
    settings = {"with_ngrams": True, "with_marks": True, "attention_weight": 0.4}
    return exports.export_onnx(str(tmp_path_factory.mktemp("export")), **settings)


@pytest.fixture(scope="module")
def folder(exports, export, tmp_path_factory) -> str:
    return exports.write_page(export, str(tmp_path_factory.mktemp("folder") / "page"))


@pytest.fixture(scope="module")
def recording(exports, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("recording") / "speech.wav"
    soundfile.write(path, exports.WAVEFORMS[3], 16000, "FLOAT")
    return str(path)


@pytest.fixture
def page(folder):
    with recording_page(folder) as opened:
        yield opened


@contextlib.contextmanager
def recording_page(folder, recording=None):
    """Opens the page in a browser whose microphone plays a recording, if one is given."""
    with serve(folder) as (url, _), browser.Browser(browser.find(), 1000, 900, recording) as opened:
        open_page(opened, url)
        yield opened


def open_page(page, url):
    page.open(url)
    page.wait(lambda: find(page, "status") == "Ready.")


def find(page, element, what="textContent"):
    return page.run(f"(document.getElementById('{element}') || {{}}).{what}")


def characters(page, what) -> list:
    return page.run(f"[...document.querySelectorAll('#transcript ruby')].map((each) => {what})")


def choose(page, path):
    page.choose_file("#file", path)
    page.wait(lambda: "s of audio in" in find(page, "status"))


def test_a_file_becomes_the_transcript_of_the_python_runtime(page, export, recording):
    choose(page, recording)
    expected = recogniser.Recogniser(model.load(export)).recognise_file(recording)
    assert expected["characters"]
    assert find(page, "written") == expected["written"] != expected["transcript"]
    assert not find(page, "written", "hidden")
    assert characters(page, "each.firstChild.data") == [each["character"] for each in expected["characters"]]
    titles = [
        f"{each['start']:.2f} to {each['end']:.2f} s, {round(100 * each['confidence'])} % sure"
        for each in expected["characters"]
    ]
    assert characters(page, "each.title") == titles
    assert all(characters(page, "each.style.background"))
    listed = page.run("[...document.querySelectorAll('#n-best li')].map((each) => each.firstChild.data)")
    assert listed[0] == expected["transcript"] and len(listed) == len(expected["n_best"])
    assert find(page, "progress", "hidden")


def test_the_microphone(folder, recording):
    with recording_page(folder, recording) as page:
        page.run("document.getElementById('record').click()")
        page.wait(lambda: "Listening" in find(page, "status"))
        page.wait(lambda: find(page, "level", "value") > 0.1)
        page.wait(lambda: page.run("new Promise((done) => setTimeout(() => done(true), 1500))"))
        page.run("document.getElementById('record').click()")
        page.wait(lambda: "s of audio in" in find(page, "status"))
        assert find(page, "transcript") and find(page, "level", "hidden")


def test_audio_that_cannot_be_recognised_has_a_message(page, tmp_path):
    soundfile.write(tmp_path / "silent.wav", np.zeros(16000), 16000)
    page.choose_file("#file", str(tmp_path / "silent.wav"))
    page.wait(lambda: "is silent" in find(page, "status"))
    (tmp_path / "text.wav").write_text("no audio", encoding="utf-8")
    page.choose_file("#file", str(tmp_path / "text.wav"))
    page.wait(lambda: "cannot read this file as audio" in find(page, "status"))
    page.run(
        "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('', 'NotAllowedError'))"
    )
    page.run("document.getElementById('record').click()")
    page.wait(lambda: "microphone was denied" in find(page, "status"))
    page.run("Object.defineProperty(navigator, 'mediaDevices', {value: undefined})")
    page.run("document.getElementById('record').click()")
    page.wait(lambda: "only over https or on localhost" in find(page, "status"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "language.onnx",
            None,
            "the web server responded to the request for model/language.onnx with status 404",
        ),
        ("tokens.txt", b"?", "model/tokens.txt is damaged"),
    ],
)
def test_a_missing_or_damaged_file_of_the_model_is_named(exports, export, tmp_path, name, content, message):
    """The damaged file keeps its size."""
    folder = exports.write_page(export, str(tmp_path / "page"))
    path = os.path.join(folder, "model", name)
    if content is None:
        os.remove(path)
    else:
        with open(path, "r+b") as file:
            file.write(content)
    with serve(folder) as (url, _), browser.Browser(browser.find(), 1000, 900) as page:
        page.open(url)
        page.wait(lambda: message in (find(page, "status") or ""))
        assert find(page, "record", "disabled")


def test_a_recording_ends_after_the_longest_utterance(exports, export, recording, tmp_path):
    folder = exports.write_page(export, str(tmp_path / "page"))
    path = os.path.join(folder, "model.json")
    with open(path, encoding="utf-8") as file:
        listing = json.load(file)
    listing["max_seconds"] = 1
    with open(path, "w", encoding="utf-8") as file:
        json.dump(listing, file)
    with recording_page(folder, recording) as page:
        page.run("document.getElementById('record').click()")
        page.wait(lambda: "for up to 1 s" in find(page, "status"))
        page.wait(lambda: find(page, "status").startswith("1.0 s of audio in"))
        assert find(page, "transcript") and find(page, "level", "hidden")


def test_the_page_fits_the_width_of_a_phone(folder, recording):
    with serve(folder) as (url, _), browser.Browser(browser.find(), 390, 800) as page:
        open_page(page, url)
        choose(page, recording)
        assert page.run("document.documentElement.scrollWidth") <= 390


def test_the_page_loads_only_its_folder_and_sends_nothing(folder, recording):
    with serve(folder) as (url, asked), browser.Browser(browser.find(), 1000, 900) as page:
        open_page(page, url)
        number = len(asked)
        choose(page, recording)
        assert len(asked) == number > 10
        names = page.run("performance.getEntriesByType('resource').map((each) => each.name)")
        assert all(name.startswith((url, "data:", "blob:")) for name in names)
        assert all(os.path.exists(os.path.join(folder, path.strip("/"))) for path in asked)
