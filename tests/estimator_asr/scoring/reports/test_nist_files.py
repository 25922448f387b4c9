from __future__ import annotations

import pytest

from estimator_asr.scoring import utterances
from estimator_asr.scoring.reports import nist_files, report, scored_split

CHARACTERS = utterances.CHARACTER_ERROR_RATE


def item(character, start, end, confidence=0.5):
    return {"character": character, "start": start, "end": end, "confidence": confidence}


def make(*rows, measure=CHARACTERS):
    """Rows: id, speaker, reference, characters. Returns scored utterances and outputs."""
    scored = [
        utterances.score(measure, name, speaker, reference, " ".join(each["character"] for each in items))
        for name, speaker, reference, items in rows
    ]
    return scored, [{"utterance_id": name, "characters": items} for name, _, _, items in rows]


def test_files_of_two_utterances():
    scored, outputs = make(
        ("u1", "s1", "你好", [item("你", 0.48, 0.52, 0.9523), item("好", 1.2, 1.24)]),
        ("u2", "s2", "天 气", [item("天", 0.04, 0.08)]),
    )
    assert nist_files.contents(CHARACTERS, scored, outputs) == {
        "reference.stm": "u1 1 s1 0.000 1.240 <O> 你 好\nu2 1 s2 0.000 0.080 <O> 天 气\n",
        "hypothesis.ctm": "u1 1 0.480 0.040 你 0.952\nu1 1 1.200 0.040 好 0.500\nu2 1 0.040 0.040 天 0.500\n",
    }


def test_syllables_are_tokens_of_an_acoustic_model():
    measure = utterances.TOKEN_ERROR_RATE
    scored, outputs = make(("u", "s", "ni3 hao3", [item("ni3", 0, 0.04)]), measure=measure)
    found = nist_files.contents(measure, scored, outputs)
    assert found["reference.stm"].endswith("<O> ni3 hao3\n")
    assert found["hypothesis.ctm"] == "u 1 0.000 0.040 ni3 0.500\n"


def test_tokens_of_one_item_share_its_time():
    scored, outputs = make(("u", "s", "AB", [item("A B", 1.0, 1.08)]))
    assert nist_files.contents(CHARACTERS, scored, outputs)["hypothesis.ctm"].splitlines() == [
        "u 1 1.000 0.040 A 0.500",
        "u 1 1.040 0.040 B 0.500",
    ]


def test_nothing_said_has_a_segment_and_no_token():
    scored, outputs = make(("u", "", "", []))
    assert nist_files.contents(CHARACTERS, scored, outputs) == {
        "reference.stm": "u 1 unknown 0.000 0.001 <O>\n",
        "hypothesis.ctm": "",
    }


def test_signs_of_the_formats_are_not_read_as_such():
    scored, outputs = make(("u 1", "a b", "(好)", [item("{", 0, 0.04), item("<unk>", 0.04, 0.08)]))
    found = nist_files.contents(CHARACTERS, scored, outputs)
    assert found["reference.stm"] == "u_1 1 a_b 0.000 0.080 <O> （ 好 ）\n"
    assert [line.split()[4] for line in found["hypothesis.ctm"].splitlines()] == ["｛", "<unk>"]


@pytest.mark.parametrize("outputs", [[], [{"utterance_id": "u", "transcript": "好"}]])
def test_no_files_without_times(outputs):
    scored, _ = make(("u", "s", "好", [item("好", 0, 0.04)]))
    assert nist_files.contents(CHARACTERS, scored, outputs) == {}
    assert nist_files.contents(CHARACTERS, [], []) == {}


def test_a_report_has_them_and_keeps_none_of_an_older_one(tmp_path):
    scored, outputs = make(("u", "s", "好", [item("好", 0, 0.04)]))
    report.write(scored_split.ScoredSplit({}, {CHARACTERS: scored}, outputs=outputs), str(tmp_path))
    assert (tmp_path / "reference.stm").read_text("utf-8") == "u 1 s 0.000 0.040 <O> 好\n"
    assert (tmp_path / "hypothesis.ctm").read_text("utf-8") == "u 1 0.000 0.040 好 0.500\n"
    report.write(scored_split.ScoredSplit({}, {CHARACTERS: scored}), str(tmp_path))
    assert not list(tmp_path.glob("*tm"))
