"""Tests the size of report.html, and in a browser its tables, filters and players."""

import dataclasses
import json
import os
import re
import time

import browser
import numpy as np
import pytest
import soundfile

from estimator_asr.scoring import attribution, utterances
from estimator_asr.scoring.reports import comparison, report, report_page, scored_split
from tfrecord_builder.data import recordings

in_a_browser = pytest.mark.skipif(
    browser.find() is None, reason="no chromium or google-chrome is installed: apt-get install chromium"
)
CHOOSE = (
    "(e => {{ e.value = '{}'; e.dispatchEvent(new Event('change')); }})(document.querySelector('select'))"
)
ROWS = "document.querySelectorAll('#{} tbody tr').length"


# Pairs of characters that are homophones, and their syllables.
_HOMOPHONES = (("是", "事", "shi4"), ("市", "式", "shi4"), ("他", "她", "ta1"), ("在", "再", "zai4"))
_CHARACTERS = {text: row[2] for row in _HOMOPHONES for text in row[:2]}


def make_split(num_utterances: int, wrong: float = 0.1) -> scored_split.ScoredSplit:
    """Returns a split of 20 speakers; utterances have 8 to 20 characters, with error rate `wrong`."""
    rng = np.random.default_rng(0)
    tokens, characters, outputs = [], [], []
    for index in range(num_utterances):
        name, speaker = f"BAC009S{index:04d}W{index % 497:04d}", f"S{index % 20:04d}"
        reference = rng.choice(list(_CHARACTERS), rng.integers(8, 21))
        hypothesis = np.where(rng.random(len(reference)) < wrong, rng.choice(list(_CHARACTERS)), reference)
        spoken = (" ".join(_CHARACTERS[text] for text in texts) for texts in (reference, hypothesis))
        texts = "".join(reference), "".join(hypothesis)
        tokens.append(utterances.score(utterances.TOKEN_ERROR_RATE, name, speaker, *spoken))
        characters.append(utterances.score(utterances.CHARACTER_ERROR_RATE, name, speaker, *texts))
        n_best = [{"transcript": texts[1], "score": -1.0}, {"transcript": texts[0], "score": -2.0}]
        outputs.append({"utterance_id": name, "transcript": texts[1], "confidence": 0.9, "n_best": n_best})
    measures = {utterances.TOKEN_ERROR_RATE: tokens, utterances.CHARACTER_ERROR_RATE: characters}
    known = attribution.KnownVocabularies(characters=frozenset(_CHARACTERS) - {"式"})
    return scored_split.ScoredSplit({"model": "made up"}, measures, outputs=outputs, vocabularies=known)


def read_data(path) -> dict:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*)</script>', path.read_text("utf-8"))
    return json.loads(text)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Writes a report of 120 utterances, two of which have recordings."""
    directory = tmp_path_factory.mktemp("report")
    split = make_split(120)
    worst = max(split.scored, key=lambda row: (row.edits.errors, -row.edits.reference_length))
    right = next(row for row in split.scored if not row.edits.errors)
    found = {}
    for row in (worst, right):
        path = str(directory / f"{row.utterance_id}.wav")
        soundfile.write(path, 0.1 * np.sin(np.arange(16000) * 0.3), 16000)
        found[row.utterance_id] = recordings.Recording(path)
    split = dataclasses.replace(split, recordings=found, command="python -m estimator_asr.evaluate --x=<y>")
    return directory, report.write(split, str(directory / "out")), split


@pytest.mark.long
def test_a_report_of_the_size_of_aishell_is_small_and_fast(tmp_path):
    split = make_split(7176)
    start = time.process_time()
    report.write(split, str(tmp_path))
    assert time.process_time() - start < 15
    assert os.path.getsize(tmp_path / "report.html") < 3e6


def test_data_of_the_tables_match_metrics_json(made):
    directory, metrics, split = made
    data = read_data(directory / "out" / "report.html")
    errors = [part for row in data["utterances"] for part in row[4] if isinstance(part, dict)]
    assert len(errors) == metrics["character_error_rate"]["errors"]
    counts = {cause: each["errors"] for cause, each in metrics["attribution"].items()}
    assert counts == {
        cause: sum(part["c"] == index for part in errors) for index, cause in enumerate(data["causes"])
    }
    assert sum(counts.values()) > 100
    levels = [row[2] for row in data["utterances"] if row[2] is not None]
    assert levels == [-20.0, -20.0]
    assert len(data["audio"]) == len(data["files"]["rest"]) == 1


HOMOPHONE = list(attribution.CAUSES).index(attribution.HOMOPHONE)
DELETION = list(attribution.CAUSES).index(attribution.DELETION)


def attribute(reference, hypothesis, spoken):
    sides = [attribution.pair(*each) for each in zip((reference, hypothesis), spoken)]
    return attribution.attribute(*sides, attribution.KnownVocabularies())


def test_right_texts_are_joined_and_errors_are_named():
    positions = attribute("我在他里", "我在她", (["wo3", "zai4", "ta1", "li3"], ["wo3", "zai4", "ta1"]))
    assert report_page.align(positions) == [
        "我在",
        {"r": "他", "h": "她", "s": ["ta1", "ta1"], "c": HOMOPHONE},
        {"r": "里", "h": None, "s": ["li3", None], "c": DELETION},
    ]


def test_tokens_of_several_letters_are_not_joined():
    tokens = ["ni3", "hao3"]
    assert report_page.align(attribute(tokens, tokens, (tokens, tokens))) == [tokens]


def test_rows_of_the_table_of_utterances():
    scored = [
        utterances.score(utterances.CHARACTER_ERROR_RATE, name, speaker, "我", "我")
        for name, speaker in (("u1", "b"), ("u2", "a"))
    ]
    outputs = [{"utterance_id": "u1", "confidence": 0.98765}, {"utterance_id": "u2"}]
    split = scored_split.ScoredSplit({}, {utterances.CHARACTER_ERROR_RATE: scored}, outputs=outputs)
    assert report_page.list_rows(split, {"u2": -20.04}) == {
        "speakers": ["a", "b"],
        "utterances": [["u1", 1, None, 0.988, ["我"]], ["u2", 0, -20.0, None, ["我"]]],
    }


def test_urls_of_files_share_a_root():
    found = {
        "u1": recordings.Recording("/corpus/a b/1.wav"),
        "u2": recordings.Recording("/corpus/a b/2.wav", 1.5, 2.0),
        "u3": recordings.Recording("/elsewhere/3.wav"),
        "u4": recordings.Recording("s3://bucket/4.wav"),
    }
    assert report_page.list_files(found, {"u3"}) == {
        "root": "file:///corpus/a%20b/",
        "rest": {"u1": "1.wav", "u2": "2.wav#t=1.5,3.5"},
    }
    assert os.path.commonprefix([]) == report_page.list_files({}, ())["root"]


@pytest.fixture(params=[(1100, 900), (390, 844)], ids=["desktop", "telephone"])
def page(made, request):
    with browser.Browser(browser.find(), *request.param) as opened:
        opened.open((made[0] / "out" / "report.html").as_uri())
        opened.wait(lambda: opened.run(ROWS.format("utterances")))
        yield opened


@pytest.mark.slow
@in_a_browser
def test_page_shows_headline_causes_and_command(made, page):
    text, rate = page.text(), made[1]["character_error_rate"]["rate"]
    assert f"{100 * rate:.2f} %" in text and "python -m estimator_asr.evaluate --x=<y>" in text
    assert f"{made[1]['character_error_rate']['errors']} errors: " in text and "language homophone" in text
    assert page.run("document.documentElement.scrollWidth") <= page.run("window.innerWidth")


@pytest.mark.slow
@in_a_browser
def test_tables_are_filtered_and_sorted(made, page):
    assert page.run(ROWS.format("utterances")) == 10 and "120 of 120" in page.text()
    page.run("document.querySelector('#utterances > button').click()")
    assert page.run(ROWS.format("utterances")) == 60
    first = "document.querySelector('#utterances tbody td').textContent"
    most = max(row.edits.errors for row in made[2].scored)
    assert page.run(first) == str(most)
    heads = "document.querySelectorAll('#utterances th button')[0].click()"
    page.run(heads), page.run(heads)  # most errors first, then fewest
    assert page.run(first) == str(min(row.edits.errors for row in made[2].scored))
    type_in = (
        "(e => { e.value = '%s'; e.dispatchEvent(new Event('input')); })(document.querySelector('%s input'))"
    )
    page.run(type_in % (made[2].scored[7].utterance_id.lower(), "#utterances"))
    assert page.run(ROWS.format("utterances")) == 1


@pytest.mark.slow
@in_a_browser
def test_a_click_on_a_character_filters_its_utterances(made, page):
    """This also holds if a cause was chosen before."""
    page.run(CHOOSE.format(len(read_data(made[0] / "out" / "report.html")["causes"]) - 1))
    button = "document.querySelector('#texts tbody button')"
    text = page.run(f"{button}.textContent")
    page.run(f"{button}.click()")
    wanted = sum(
        any(each.cause and each.reference and each.reference.text == text for each in positions)
        for positions in made[2].positions
    )
    assert wanted and f"{wanted} of 120" in page.text()


@pytest.mark.slow
@in_a_browser
def test_choosing_a_cause_filters_its_utterances(made, page):
    causes = read_data(made[0] / "out" / "report.html")["causes"]
    page.run(CHOOSE.format(causes.index("unreachable")))
    wanted = sum(any(each.cause == "unreachable" for each in positions) for positions in made[2].positions)
    assert 0 < wanted < 120 and f"{wanted} of 120" in page.text()


@pytest.mark.slow
@in_a_browser
def test_embedded_recordings_play(page):
    played = page.run(
        "(async () => { const player = document.querySelector('audio[src^=\"data:\"]'); await player.play(); "
        "await new Promise((done) => setTimeout(done, 300)); return player.currentTime; })()"
    )
    assert played > 0
    assert page.run("document.querySelector('canvas').height") == 64


@pytest.mark.slow
@in_a_browser
def test_page_of_a_comparison_shows_the_differences(made, tmp_path):
    report.write(make_split(120, wrong=0.05), str(tmp_path / "b"))
    paths = [str(made[0] / "out"), str(tmp_path / "b")]
    reports = {path: report.read(path) for path in paths}
    comparison.write(comparison.compare(reports), reports, str(tmp_path))
    with browser.Browser(browser.find(), 1100, 900) as opened:
        opened.open((tmp_path / "report.html").as_uri())
        opened.wait(lambda: opened.run(ROWS.format("utterances")))
        text = opened.text()
    assert "character error rate" in text and "MAPSSWE" in text and "wrong in B" in text
