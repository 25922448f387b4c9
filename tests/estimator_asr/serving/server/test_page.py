"""The page in a real browser: files, the microphone, both languages, a narrow screen, and the token."""

import re

import browser
import local_server
import numpy as np
import pytest
import recognition_results
import soundfile

from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.transcripts import live

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


@pytest.fixture
def waveform_of_speech(tiny_export, tmp_path) -> str:
    waveforms = [row[-1] for row in tiny_export.utterances.values()]
    soundfile.write(tmp_path / "long.wav", np.concatenate(waveforms * 3), 16000, "FLOAT")
    return str(tmp_path / "long.wav")


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
    """Returns an attribute of each button in the transcript."""
    return page.run(f"[...document.querySelectorAll('#transcript button')].map((each) => each.{name})")


def test_a_file_becomes_characters_with_pinyin_under_their_times(page, recording, expected):
    choose(page, recording)
    text = "".join(each["character"] + each["pinyin"] for each in expected["characters"])
    assert text and "".join(characters(page, "textContent")) == text
    sure = [round(100 * each["confidence"]) for each in expected["characters"]]
    first = expected["characters"][0]
    assert characters(page, "ariaLabel")[0] == (
        f"{first['character']} {first['pinyin']}, {sure[0]} % sure: play"
    )
    seconds = len(soundfile.read(recording)[0]) / 16000
    lefts = page.run(
        "[...document.querySelectorAll('#characters li')].map((each) => parseFloat(each.style.left))"
    )
    middles = [(each["start"] + each["end"]) / 2 for each in expected["characters"]]
    width = page.run("document.getElementById('spectrogram').width")
    np.testing.assert_allclose(lefts, np.array(middles) / seconds * width, atol=1.5)
    assert f"{seconds:.1f} s of audio in" in find(page, "status")


def test_text_with_marks_stands_above_its_characters(page, punctuated_export, recording):
    choose(page, recording)
    assert find(page, "written", "hidden") and not find(page, "transcript", "hidden")
    with local_server.serve(punctuated_export) as server:
        open_page(page, server)
        choose(page, recording)
        written = find(page, "written")
        plain = recognition_results.remove_marks(written)
        names = page.run(
            "[...document.querySelectorAll('#transcript ruby')].map((each) => each.firstChild.data)"
        )
        assert "".join(names) == plain != written and not find(page, "written", "hidden")


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
    page.wait(lambda: page.run("document.getElementById('cursor').hidden"), 10)  # playback has ended


def test_the_characters_are_one_tab_stop(page, recording):
    """Arrow keys, Home and End move between characters; Tab leaves them and returns to the same one."""
    choose(page, recording)
    count = len(characters(page, "tabIndex"))
    assert count > 2 and characters(page, "tabIndex") == [0] + [-1] * (count - 1)
    focused = "[...document.querySelectorAll('#transcript button')].indexOf(document.activeElement)"
    page.run("document.querySelector('#transcript button').focus()")
    found = []
    for key in "ArrowRight ArrowRight ArrowLeft End ArrowRight Home ArrowLeft ArrowRight".split():
        page.press(key)
        found.append(page.run(focused))
    assert found == [1, 2, 1, count - 1, count - 1, 0, 0, 1]
    page.press("Tab")
    assert page.run("document.activeElement.id") == "play"
    assert characters(page, "tabIndex").index(0) == 1


def measure_contrast(page, element):
    """Returns the WCAG 2 contrast ratio between an element and the page's background."""
    colours = page.run(
        f"[document.getElementById('{element}'), document.body].map((each, i) => "
        "getComputedStyle(each)[i ? 'backgroundColor' : 'color'])"
    )
    luminances = []
    for colour in colours:
        values = np.array([int(each) for each in re.findall(r"\d+", colour)[:3]]) / 255
        linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
        luminances.append(float(linear @ [0.2126, 0.7152, 0.0722]))
    return (max(luminances) + 0.05) / (min(luminances) + 0.05)


@pytest.mark.parametrize("is_dark", [False, True])
def test_the_error_colour_has_enough_contrast(page, is_dark):
    if is_dark:
        page.prefer_dark()
    page.run("document.getElementById('status').className = 'error'")
    assert measure_contrast(page, "status") >= 4.5
    assert measure_contrast(page, "record-sign") >= 4.5


def test_copying_over_plain_http(page, recording):
    """navigator.clipboard is undefined over plain HTTP."""
    choose(page, recording)
    page.run(
        "Object.defineProperty(navigator, 'clipboard', {value: undefined});"
        "document.addEventListener('copy', () => { window.copied = document.activeElement.value; });"
        "document.getElementById('copy').click()"
    )
    page.wait(lambda: find(page, "status") == "Copied.", 10)
    text = page.run("window.copied")
    assert text and all(each in find(page, "transcript") for each in text)


def test_chinese_and_english(page, recording, expected):
    choose(page, recording)
    before = characters(page, "textContent")
    page.run("document.getElementById('language').click()")
    assert page.run("document.documentElement.lang") == "zh"
    assert "识别结果" in page.text() and "Transcript" not in page.text()
    assert characters(page, "textContent") == before
    page.run("document.getElementById('language').click()")
    assert "Transcript" in page.text()


def test_silence_and_files_that_are_not_audio_have_a_message(page, tmp_path):
    soundfile.write(tmp_path / "silent.wav", np.zeros(16000), 16000)
    page.choose_file("#file", str(tmp_path / "silent.wav"))
    page.wait(lambda: "The recording is silent" in find(page, "status"))
    (tmp_path / "text.wav").write_text("no audio")
    page.choose_file("#file", str(tmp_path / "text.wav"))
    page.wait(lambda: find(page, "status", "className") == "error" and "silent" not in find(page, "status"))
    assert find(page, "result", "hidden")


def test_the_microphone(server, recording):
    name = "document.querySelector('#record [data-text]').textContent"
    with browser.Browser(browser.find(), 1000, 900, microphone=recording) as page:
        open_page(page, server)
        page.run("document.getElementById('record').click()")
        page.wait(lambda: "Listening" in find(page, "status"))
        assert find(page, "record", "ariaPressed") == "true" and page.run(name) == "Record"
        page.wait(lambda: find(page, "level", "value") > 0.1)
        page.wait(lambda: page.run("new Promise((done) => setTimeout(() => done(true), 1500))"))
        page.run("document.getElementById('record').click()")
        page.wait(lambda: "s of audio in" in find(page, "status"))
        assert find(page, "transcript") and not find(page, "timeline", "hidden")
        assert find(page, "record", "ariaPressed") == "false" and page.run(name) == "Record"


@pytest.mark.usefixtures("loud_is_speech")
def test_words_come_while_one_speaks(server, waveform_of_speech, monkeypatch):
    """Words show the seconds since they were spoken, and are lighter until they settle; then they remain."""
    monkeypatch.setattr(live, "MIN_CONFIDENCE", 0.0)  # the weights are random
    words = (
        "[...document.querySelectorAll('#live-text ruby')]"
        ".map((each) => [each.className, ...each.childNodes].map((part) => part.textContent || part))"
    )
    with browser.Browser(browser.find(), 1000, 900, microphone=waveform_of_speech) as page:
        open_page(page, server)
        page.run("document.getElementById('record').click()")
        page.wait(lambda: page.run("document.querySelectorAll('#live-text .stable').length") > 2)
        seen = page.run(words)
        kinds, characters_seen, ages = map(list, zip(*seen))
        assert kinds == sorted(kinds, reverse=True), "a settled word comes after one that is not settled"
        assert ages == sorted(ages, key=float, reverse=True) and 0 <= float(ages[-1]) < 10
        settled = characters_seen[: kinds.count("stable")]
        page.run("document.getElementById('record').click()")
        page.wait(lambda: "s of audio in" in find(page, "status"))
        shown = page.run(
            "[...document.querySelectorAll('#transcript ruby')].map((each) => each.firstChild.data)"
        )
        assert shown[: len(settled)] == settled and find(page, "live", "hidden")


def test_without_streams_the_recording_is_sent_as_a_whole(server, recording):
    with browser.Browser(browser.find(), 1000, 900, microphone=recording) as page:
        open_page(page, server)
        page.run(
            "window.WebSocket = function () { this.readyState = 3; this.close = () => {};"
            "setTimeout(() => this.onclose(), 100); }"
        )
        page.run("document.getElementById('record').click()")
        page.wait(lambda: page.run("new Promise((done) => setTimeout(() => done(true), 1500))"))
        page.run("document.getElementById('record').click()")
        page.wait(lambda: "s of audio in" in find(page, "status"))
        assert find(page, "transcript")


def test_a_refused_or_missing_microphone_is_explained(page):
    page.run(
        "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('', 'NotAllowedError'))"
    )
    page.run("document.getElementById('record').click()")
    page.wait(lambda: "microphone was denied" in find(page, "status"))
    assert find(page, "live", "hidden")
    page.run("Object.defineProperty(navigator, 'mediaDevices', {value: undefined})")
    page.run("document.getElementById('record').click()")
    page.wait(lambda: "only over https or on localhost" in find(page, "status"))


def test_a_stream_that_fails_is_explained(server, recording):
    """A recording whose stream fails continues, and is sent as a whole."""
    with browser.Browser(browser.find(), 1000, 900, microphone=recording) as page:
        open_page(page, server)
        page.run("{const words = document.getElementById('hotwords'); words.value = '字'.repeat(500);}")
        page.run("document.getElementById('record').click()")
        page.wait(lambda: "400; shorten the hotword. The recording continues" in find(page, "status"))
        page.run("document.getElementById('hotwords').value = ''")
        page.run("document.getElementById('record').click()")
        page.wait(lambda: "s of audio in" in find(page, "status"))


def test_a_telephone_needs_no_scrolling_to_the_side(server, recording):
    with browser.Browser(browser.find(), 390, 800) as page:
        open_page(page, server)
        choose(page, recording)
        assert page.run("document.documentElement.scrollWidth") <= 390


def test_the_page_sends_the_token(tiny_export, recording):
    with local_server.serve(tiny_export.export_dir, token="secret") as server:
        with browser.Browser(browser.find(), 1000, 900) as page:
            page.open(server.url("/"))
            page.wait(lambda: "needs an access token" in page.text())
            page.run(
                "{const token = document.getElementById('token'); token.value = 'secret';"
                "token.dispatchEvent(new Event('change'));}"
            )
            page.wait(lambda: LOADED in page.text())
            choose(page, recording)


def test_the_page_loads_nothing_from_other_servers(page, server, recording):
    choose(page, recording)
    names = page.run("performance.getEntriesByType('resource').map((each) => each.name)")
    assert len(names) > 5 and all(name.startswith((server.url("/"), "data:", "blob:")) for name in names)
