import dataclasses
import errno
import html.parser
import json
import os
import pathlib
import re

import pytest

from estimator_asr.scoring import punctuation_scores, utterances
from estimator_asr.scoring.reports import report, scored_split
from tfrecord_builder import errors


def make_split(**changes):
    texts = [
        ("u1", "A1", "ni3 hao3", "ni2 hao3", "你好", "尼好"),
        ("u2", "A2", "tian1 qi4", "tian1 qi4", "天气", "天气"),
        ("u3", "B1", "ma5 & <b>", "", "吗", ""),
    ]
    measures = {
        measure: [utterances.score(measure, *row[:2], *row[place : place + 2]) for row in texts]
        for measure, place in ((utterances.TOKEN_ERROR_RATE, 2), (utterances.CHARACTER_ERROR_RATE, 4))
    }
    return scored_split.ScoredSplit({"model": "a model", "split": "test"}, measures, **changes)


def test_metrics_file_holds_each_rate_with_its_parts(tmp_path):
    returned = report.write(make_split(), str(tmp_path / "new" / "out"))
    metrics = json.loads((tmp_path / "new" / "out" / "metrics.json").read_text("utf-8"))
    assert metrics == json.loads(json.dumps(returned))
    assert (metrics["split"], metrics["num_utterances"]) == ("test", 3)
    token = metrics["token_error_rate"]
    kinds = ("errors", "substitutions", "insertions", "deletions", "reference_length")
    assert [token[kind] for kind in kinds] == [4, 1, 0, 3, 7]
    assert token["rate"] == pytest.approx(4 / 7)
    low, high = token["confidence_interval"]
    assert low < token["rate"] < high
    assert metrics["character_error_rate"]["errors"] == 2
    assert metrics["by_speaker"]["B1"]["token_error_rate"]["deletions"] == 3
    assert "by_group" not in metrics


def test_groups_are_in_metrics_and_page(tmp_path):
    metrics = report.write(make_split(group_pattern="^[AB]"), str(tmp_path))
    groups = metrics["by_group"].items()
    lengths = {name: row["character_error_rate"]["reference_length"] for name, row in groups}
    assert lengths == {"A": 4, "B": 1}
    assert "By group" in (tmp_path / "report.html").read_text("utf-8")


def test_hypotheses_show_the_last_measure():
    assert report.hypotheses(make_split()) == (
        "utterance_id\treference\thypothesis\nu1\t你好\t尼好\nu2\t天气\t天气\nu3\t吗\t\n"
    )


def make_marked(**changes):
    """Returns the split with marks in two of three references."""
    pairs = {"u1": ("你好，吗？", "尼好，吗。"), "u2": ("天气。", "天气。")}
    marked = [punctuation_scores.MarkedText(name, f"A{name[1]}", *pair) for name, pair in pairs.items()]
    characters = utterances.CHARACTER_ERROR_RATE
    forms = [utterances.score(characters, "u1", "A1", "35元", "36元")]
    return make_split(marked=marked, written_forms=forms, **changes)


def test_marks_and_the_written_form_are_measured_beside_the_other_rates(tmp_path):
    plain = report.write(make_split(), str(tmp_path / "plain"))
    metrics = report.write(make_marked(), str(tmp_path / "marked"))
    assert {name: metrics[name] for name in plain} == plain
    assert metrics.keys() - plain.keys() == {"marks", "written_form"}
    assert (metrics["written_form"]["errors"], metrics["written_form"]["reference_length"]) == (1, 3)
    rates = metrics["marks"]
    assert (rates["num_utterances"], rates["num_utterances_without_marks"]) == (2, 1)
    assert (rates["，"]["f1"], rates["。"]["precision"], rates["？"]["recall"]) == (1.0, 0.5, 0.0)
    assert rates["commas_stops_questions"]["f1"] == pytest.approx(2 / 3)
    assert rates["sentence_ends"]["f1"] == 1.0 and rates["、"]["f1"] is None
    low, high = rates["commas_stops_questions"]["confidence_interval"]
    assert 0 <= low < 2 / 3 < high <= 1
    page = (tmp_path / "marked" / "report.html").read_text("utf-8")
    assert "<h2>Punctuation marks</h2>" in page and "<td>commas stops questions</td><td>66.67 %" in page
    row = re.search("<tr><td>commas stops questions</td>.*", page)[0]
    assert row.count("<td>66.67 % (95 % interval ") == 3  # F1, precision and recall
    assert "Utterances: 2; 1 without marks in the reference are not counted." in page
    assert "<td>written form</td><td>33.33 %" in page
    assert "Punctuation" not in (tmp_path / "plain" / "report.html").read_text("utf-8")


def test_hypotheses_have_columns_with_marks_only_if_there_are_marks(tmp_path):
    assert report.hypotheses(make_marked()) == (
        "utterance_id\treference\thypothesis\twritten\tpunctuated\n"
        "u1\t你好\t尼好\t你好，吗？\t尼好，吗。\nu2\t天气\t天气\t天气。\t天气。\nu3\t吗\t\t\t\n"
    )
    report.write(make_marked(), str(tmp_path))
    rows = [json.loads(line) for line in (tmp_path / "hypotheses.jsonl").read_text("utf-8").splitlines()]
    assert [row.get("marks") for row in rows] == [["你好，吗？", "尼好，吗。"], ["天气。", "天气。"], None]


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.links, self.num_bars = [], [], 0

    def handle_starttag(self, tag, attrs):
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.num_bars += tag == "rect"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_well_formed_self_contained_and_escaped(tmp_path):
    report.write(make_marked(), str(tmp_path))
    text = (tmp_path / "report.html").read_text("utf-8")
    page = Page()
    page.feed(text)
    assert page.open == [] and page.links == []
    assert page.num_bars == 2 + 2  # reference lengths 2 and 3; 1 and 2
    assert "57.14 % (95 % interval" in text
    assert "<td>&amp;</td>" in text and "<td>&lt;b&gt;</td>" in text and "<b>" not in text
    assert "(nothing)" in text


def test_utterances_come_first_and_rows_without_errors_are_left_out(tmp_path):
    report.write(make_split(group_pattern="^[AB]"), str(tmp_path))
    text = (tmp_path / "report.html").read_text("utf-8")
    titles = re.findall(r"<h2>(\w+)", text)
    assert titles[:4] == ["Utterances", "Characters", "Where", "Errors"]
    assert "<td>A1</td>" in text and "<td>A2</td>" not in text
    assert text.index("<td>B1</td>") < text.index("<td>A1</td>")  # more wrong tokens
    assert text.count("Rows without errors, not shown: 1 of 3 (A2).") == 2
    assert "Causes without errors, not shown: 7 of 9 (acoustic initial" in text
    assert "Rows and columns without confusions, not shown: 2 of 4 (1, 4)." in text
    assert "Rows and columns without confusions, not shown: 4 of 4 (t, n, h, q)." in text
    assert "<td>0.00 %" not in text


def test_older_report_is_replaced_and_other_files_are_left_alone(tmp_path):
    (tmp_path / "metrics.json").write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    report.write(make_split(), str(tmp_path))
    names = ["hypotheses.jsonl", "hypotheses.tsv", "metrics.json", "mine.txt", "report.html"]
    assert sorted(os.listdir(tmp_path)) == names
    assert json.loads((tmp_path / "metrics.json").read_text("utf-8"))["num_utterances"] == 3
    assert (tmp_path / "mine.txt").read_text() == "mine"


def score_tokens(*rows):
    """Returns a split from rows with speaker, reference and hypothesis."""
    scored = [utterances.score(utterances.TOKEN_ERROR_RATE, f"u{i}", *row) for i, row in enumerate(rows)]
    return scored_split.ScoredSplit({}, {utterances.TOKEN_ERROR_RATE: scored})


def test_report_without_any_reference_token_still_renders(tmp_path):
    metrics = report.write(score_tokens(("s", "", "")), str(tmp_path))
    assert metrics["token_error_rate"]["rate"] is None
    assert "no reference" in (tmp_path / "report.html").read_text("utf-8")


def test_unknown_speakers_are_reported(tmp_path):
    metrics = report.write(score_tokens(*[("", "a", "b")] * 2, ("s", "a", "b")), str(tmp_path))
    assert (metrics["num_speakers"], metrics["num_utterances_of_unknown_speakers"]) == (1, 2)
    page = (tmp_path / "report.html").read_text("utf-8")
    said = "speaker unknown for 2 of 3 utterances, each of which counts as a separate speaker; if a few"
    assert f"{said} people spoke them all, the intervals are too narrow" in page
    assert "<td>(unknown)</td>" in page


def test_known_speakers_are_counted_except_for_text(tmp_path):
    metrics = report.write(make_split(), str(tmp_path))
    assert (metrics["num_speakers"], metrics["num_utterances_of_unknown_speakers"]) == (3, 0)
    assert "· speakers: 3</p>" in (tmp_path / "report.html").read_text("utf-8")
    assert "num_speakers" not in scored_split.measure(make_split(are_speakers_people=False))


def test_an_older_report_stays_if_a_new_one_fails(tmp_path, monkeypatch):
    report.write(make_split(), str(tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write_text = pathlib.Path.write_text

    def fill_up(path, text, **options):
        if "report" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_text(path, text, **options)

    monkeypatch.setattr(pathlib.Path, "write_text", fill_up)
    with pytest.raises(OSError, match="No space left"):
        report.write(score_tokens(("s", "a", "b")), str(tmp_path))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_metrics_json_comes_last(tmp_path, monkeypatch):
    placed, replace = [], os.replace
    monkeypatch.setattr(
        os, "replace", lambda source, target: placed.append(target) or replace(source, target)
    )
    report.write(make_split(), str(tmp_path))
    names = ["hypotheses.tsv", "hypotheses.jsonl", "report.html", "metrics.json"]
    assert [os.path.basename(path) for path in placed] == names


def test_a_missing_output_directory_is_created(tmp_path):
    report.create_output_dir(str(tmp_path / "new" / "deep"))
    assert list((tmp_path / "new" / "deep").iterdir()) == []


@pytest.mark.parametrize(
    ("place", "reason"),
    [("file/report", r"Not a directory"), ("x" * 300, "File name too long"), ("/proc/report", ".+")],
)
def test_a_directory_that_cannot_be_created_is_named(tmp_path, place, reason):
    (tmp_path / "file").write_text("")
    path = tmp_path / place
    said = rf"^{path}: the report cannot be written \({reason}\); pass another"
    with pytest.raises(errors.UserError, match=said):
        report.create_output_dir(str(path))


def test_a_full_disk_is_reported_before_the_work(tmp_path, monkeypatch):
    def fill_up(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(report.tempfile, "TemporaryFile", fill_up)
    with pytest.raises(errors.UserError, match=r"cannot be written \(No space left on device\)"):
        report.create_output_dir(str(tmp_path))


def test_names_that_are_not_utf_8_are_replaced(tmp_path):
    """Python represents bytes that are not UTF-8 as surrogates."""
    split = dataclasses.replace(make_split(), facts={"model": "a\udc80"}, command="evaluate a\udc80")
    report.write(split, str(tmp_path))
    assert json.loads((tmp_path / "metrics.json").read_text("utf-8"))["model"] == "a?"
    assert "evaluate a?" in (tmp_path / "report.html").read_text("utf-8")


CHARACTERS = utterances.CHARACTER_ERROR_RATE


def make_item(character, start, end, confidence=0.5):
    return {"character": character, "start": start, "end": end, "confidence": confidence}


def make_timed(*rows, measure=CHARACTERS):
    """Returns a split from rows with id, speaker, reference and characters."""
    scored = [
        utterances.score(measure, name, speaker, reference, " ".join(each["character"] for each in items))
        for name, speaker, reference, items in rows
    ]
    outputs = [{"utterance_id": name, "characters": items} for name, _, _, items in rows]
    return scored_split.ScoredSplit({}, {measure: scored}, outputs=outputs)


@pytest.mark.parametrize(
    ("measure", "rows", "stm", "ctm"),
    [
        (
            CHARACTERS,
            [
                ("u1", "s1", "你好", [make_item("你", 0.48, 0.52, 0.9523), make_item("好", 1.2, 1.24)]),
                ("u2", "s2", "天 气", [make_item("天", 0.04, 0.08)]),
            ],
            "u1 1 s1 0.000 1.240 <O> 你 好\nu2 1 s2 0.000 0.080 <O> 天 气\n",
            "u1 1 0.480 0.040 你 0.952\nu1 1 1.200 0.040 好 0.500\nu2 1 0.040 0.040 天 0.500\n",
        ),
        (
            utterances.TOKEN_ERROR_RATE,  # from an acoustic model
            [("u", "s", "ni3 hao3", [make_item("ni3", 0, 0.04)])],
            "u 1 s 0.000 0.040 <O> ni3 hao3\n",
            "u 1 0.000 0.040 ni3 0.500\n",
        ),
        (
            CHARACTERS,  # the tokens of one item share its time
            [("u", "s", "AB", [make_item("A B", 1.0, 1.08)])],
            "u 1 s 0.000 1.080 <O> A B\n",
            "u 1 1.000 0.040 A 0.500\nu 1 1.040 0.040 B 0.500\n",
        ),
        (CHARACTERS, [("u", "", "", [])], "u 1 unknown 0.000 0.001 <O>\n", ""),  # no tokens
        (
            CHARACTERS,  # special characters of the formats are replaced
            [("u 1", "a b", "(好)", [make_item("{", 0, 0.04), make_item("<unk>", 0.04, 0.08)])],
            "u_1 1 a_b 0.000 0.080 <O> （ 好 ）\n",
            "u_1 1 0.000 0.040 ｛ 0.500\nu_1 1 0.040 0.040 <unk> 0.500\n",
        ),
    ],
)
def test_nist_files(measure, rows, stm, ctm):
    found = report.list_nist_files(make_timed(*rows, measure=measure))
    assert found == {"reference.stm": stm, "hypothesis.ctm": ctm}


@pytest.mark.parametrize("outputs", [[], [{"utterance_id": "u", "transcript": "好"}]])
def test_there_are_no_nist_files_without_times(outputs):
    split = make_timed(("u", "s", "好", [make_item("好", 0, 0.04)]))
    assert report.list_nist_files(dataclasses.replace(split, outputs=outputs)) == {}
    assert report.list_nist_files(make_timed()) == {}


def test_nist_files_of_an_older_report_are_removed(tmp_path):
    split = make_timed(("u", "s", "好", [make_item("好", 0, 0.04)]))
    report.write(split, str(tmp_path))
    found = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*tm")}
    assert found == report.list_nist_files(split)
    report.write(dataclasses.replace(split, outputs=()), str(tmp_path))
    assert not list(tmp_path.glob("*tm"))
