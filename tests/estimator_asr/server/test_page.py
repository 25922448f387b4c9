"""The page in a real browser: files, the microphone, both languages, a telephone's width, a token."""

from __future__ import annotations

import browser
import local_server
import numpy as np
import pytest
import soundfile

from estimator_asr.serving import recogniser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        browser.find() is None, reason="no chromium or google-chrome is installed: apt-get install chromium"
    ),
]
LOADED = "model version"


@pytest.fixture(scope="module")
def server(tiny_export):
    with local_server.serve(tiny_export.export_dir) as started:
        yield started


@pytest.fixture(scope="module")
def recording(tiny_export, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("page") / "u5.wav"
    soundfile.write(path, tiny_export.utterances["u5"][-1], 16000, "FLOAT")
    return str(path)


@pytest.fixture(scope="module")
def expected(tiny_export, recording):
    model = recogniser.load(tiny_export.version_dir, "waveform")
    waveform, _ = soundfile.read(recording, dtype="float32")
    found = model.run({"waveform": waveform[None], "num_samples": [len(waveform)]})
    return {name: value for name, (value,) in found.items()}


@pytest.fixture
def page(server):
    with browser.Browser(browser.find(), 1000, 900) as opened:
        open_page(opened, server)
        yield opened


def open_page(page, server):
    page.open(server.url("/"))
    page.wait(lambda: LOADED in page.text())


def choose(page, path):
    page.choose_file("#file", path)
    page.wait(lambda: not find(page, "result", "hidden"))


def find(page, element, what="textContent"):
    return page.run(f"(document.getElementById('{element}') || {{}}).{what}")


def characters(page, name) -> list:
    """An attribute of the buttons of the transcript."""
    return page.run(f"[...document.querySelectorAll('#transcript button')].map((each) => each.{name})")


def test_a_file_becomes_characters_with_pinyin_under_their_times(page, recording, expected):
    choose(page, recording)
    text = "".join(each["character"] + each["pinyin"] for each in expected["characters"])
    assert text and "".join(characters(page, "textContent")) == text
    sure = [round(100 * each["confidence"]) for each in expected["characters"]]
    first = expected["characters"][0]
    assert characters(page, "ariaLabel")[0] == (
        f"{first['character']} {first['pinyin']}, {sure[0]} % sure: hear it"
    )
    seconds = len(soundfile.read(recording)[0]) / 16000
    lefts = page.run(
        "[...document.querySelectorAll('#characters li')].map((each) => parseFloat(each.style.left))"
    )
    middles = [(each["start"] + each["end"]) / 2 for each in expected["characters"]]
    width = page.run("document.getElementById('spectrogram').width")
    np.testing.assert_allclose(lefts, np.array(middles) / seconds * width, atol=1.5)
    assert f"{seconds:.1f} s of audio in" in find(page, "status")


def test_other_transcripts_are_listed_with_their_scores(page, recording, expected):
    choose(page, recording)
    listed = page.run("[...document.querySelectorAll('#n-best li')].map((each) => each.textContent)")
    assert listed == [f"{each['transcript']} {each['score']:.2f}" for each in expected["n_best"]]


def test_pictures_show_the_recording(page, recording):
    choose(page, recording)
    for canvas in ("waveform", "spectrogram"):
        shades = page.run(
            f"""(() => {{ const c = document.getElementById('{canvas}');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            return new Set(Array.from(d)).size; }})()"""
        )
        assert shades > (1 if canvas == "waveform" else 50)


def test_a_character_sounds_when_it_is_clicked(page, recording):
    choose(page, recording)
    page.run("document.querySelector('#transcript button').focus(); document.activeElement.click()")
    page.wait(lambda: page.run("!document.getElementById('cursor').hidden"), 10)
    assert page.run("document.querySelectorAll('#transcript .sounding').length") == 1
    page.wait(lambda: page.run("document.getElementById('cursor').hidden"), 10)  # at its end


def test_chinese_and_english(page, recording, expected):
    choose(page, recording)
    before = characters(page, "textContent")
    page.run("document.getElementById('language').click()")
    assert page.run("document.documentElement.lang") == "zh"
    assert "识别结果" in page.text() and "Transcript" not in page.text()
    assert characters(page, "textContent") == before
    page.run("document.getElementById('language').click()")
    assert "Transcript" in page.text()


def test_silence_and_files_that_are_not_audio_have_a_sentence(page, tmp_path):
    soundfile.write(tmp_path / "silent.wav", np.zeros(16000), 16000)
    page.choose_file("#file", str(tmp_path / "silent.wav"))
    page.wait(lambda: "The recording is silent" in find(page, "status"))
    (tmp_path / "text.wav").write_text("no audio")
    page.choose_file("#file", str(tmp_path / "text.wav"))
    page.wait(lambda: find(page, "status", "className") == "error" and "silent" not in find(page, "status"))
    assert find(page, "result", "hidden")


def test_the_microphone(server, recording):
    with browser.Browser(browser.find(), 1000, 900, microphone=recording) as page:
        open_page(page, server)
        page.run("document.getElementById('record').click()")
        page.wait(lambda: "Listening" in find(page, "status"))
        page.wait(lambda: find(page, "level", "value") > 0.1)
        page.wait(lambda: page.run("new Promise((done) => setTimeout(() => done(true), 1500))"))
        page.run("document.getElementById('record').click()")
        page.wait(lambda: "s of audio in" in find(page, "status"))
        assert find(page, "transcript") and not find(page, "timeline", "hidden")


def test_without_a_microphone_it_says_why(page):
    page.run("Object.defineProperty(navigator, 'mediaDevices', {value: undefined})")
    page.run("document.getElementById('record').click()")
    page.wait(lambda: "only over https or on localhost" in find(page, "status"))


def test_a_telephone_needs_no_scrolling_to_the_side(server, recording):
    with browser.Browser(browser.find(), 390, 800) as page:
        open_page(page, server)
        choose(page, recording)
        assert page.run("document.documentElement.scrollWidth") <= 390


def test_a_server_with_a_token_is_asked_with_it(tiny_export, recording):
    with local_server.serve(tiny_export.export_dir, token="secret") as server:
        with browser.Browser(browser.find(), 1000, 900) as page:
            page.open(server.url("/"))
            page.wait(lambda: "asks for an access token" in page.text())
            page.run(
                "{const token = document.getElementById('token'); token.value = 'secret';"
                "token.dispatchEvent(new Event('change'));}"
            )
            page.wait(lambda: LOADED in page.text())
            choose(page, recording)


def test_nothing_comes_from_outside(page, server, recording):
    choose(page, recording)
    names = page.run("performance.getEntriesByType('resource').map((each) => each.name)")
    assert len(names) > 5 and all(name.startswith((server.url("/"), "data:", "blob:")) for name in names)
