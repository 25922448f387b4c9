"""Which pseudo-labels can be trusted, and how many utterances a minimum confidence keeps."""

import pytest

from estimator_asr.scoring import edit_distance
from estimator_asr.serving.transcripts import captions, pseudo_labels


def make_outputs(pinyin="ni3 hao3", transcript="你好", greedy=None, confidence=0.9, **others):
    greedy = pinyin if greedy is None else greedy
    texts = {"transcript": transcript, "pinyin": pinyin, "greedy_pinyin": greedy}
    return {**texts, "confidence": confidence, "status": "ok", **others}


def make_row(**outputs):
    (row,) = pseudo_labels.list_rows([captions.TranscriptSegment(0.0, 1.0, make_outputs(**outputs))])
    return row


class Model:
    """Stands in for a recogniser that always returns the same outputs."""

    def __init__(self, pinyin):
        self.pinyin = pinyin

    def run(self, batch):
        return make_outputs(pinyin=[self.pinyin for _ in batch["num_samples"]])


def test_two_teachers_transcribe_the_same_audio():
    outputs = pseudo_labels.Teachers([Model("ni3"), Model("ni2")]).run({"num_samples": [1, 2]})
    assert (outputs["pinyin"], outputs["second_pinyin"]) == (["ni3", "ni3"], ["ni2", "ni2"])
    assert pseudo_labels.Teachers([Model("ni3")]).run({"num_samples": [1]})["second_pinyin"] == ["ni3"]


@pytest.mark.parametrize(
    "outputs, expected",
    [
        ({}, 0.0),
        ({"greedy": "ni2 hao3"}, 0.5),  # a wrong tone is an error
        ({"greedy": "hao3"}, 0.5),
        ({"second_pinyin": "ni2 hao2 a5"}, 1.5),
        ({"greedy": "", "second_pinyin": "ni3 hao3"}, 1.0),
        ({"pinyin": "", "greedy": ""}, 0.0),
        ({"pinyin": "", "greedy": "a1 a1"}, 2.0),
    ],
)
def test_disagreement_is_the_largest_error_rate_of_the_other_decodings(outputs, expected):
    assert make_row(**outputs)["disagreement"] == expected


def test_the_text_is_plain():
    assert make_row(punctuated="你好。")["text"] == "你好"


def test_rows_have_times_texts_and_confidence():
    segments = [
        captions.TranscriptSegment(0.0, 1.2344, make_outputs()),
        captions.TranscriptSegment(61.5, 63.0, make_outputs()),
    ]
    common = {"text": "你好", "pinyin": "ni3 hao3", "confidence": 0.9, "disagreement": 0.0}
    assert pseudo_labels.list_rows(segments) == [
        {"start": 0.0, "seconds": 1.234, **common},
        {"start": 61.5, "seconds": 1.5, **common},
    ]
    assert pseudo_labels.find_problem(*pseudo_labels.list_rows([]), 0.0, 0.0) == "nothing was recognised"
    assert make_row(transcript="ni3 hao3")["text"] == ""  # the teacher has no language model


@pytest.mark.parametrize(
    "outputs, expected",
    [
        ({}, ""),
        ({"confidence": 0.79}, "confidence is too low"),
        ({"confidence": 0.8, "greedy": "ni3 hao3 a5 a5"}, "decodings disagree"),
        ({"greedy": "ni3 hao3 ma5"}, ""),
        ({"transcript": "<unk>好"}, "contains <unk>"),
        ({"pinyin": "ni3 <unk>"}, "contains <unk>"),
        ({"pinyin": "", "transcript": ""}, "nothing was recognised"),
    ],
)
def test_find_problem_says_why_a_row_cannot_be_trusted(outputs, expected):
    assert pseudo_labels.find_problem(make_row(**outputs), 0.5, 0.8) == expected


def make_scored(reference, **outputs):
    made = make_outputs(**outputs)
    return made, edit_distance.count_edits(reference.split(), made["pinyin"].split())


OUTPUTS, EDITS = zip(
    make_scored("ni3 hao3", confidence=0.995),
    make_scored("ni3 hao3", confidence=0.93),
    make_scored("ni3 hao2", confidence=0.65),
    make_scored("ni2 hao2", confidence=0.9999, greedy="ni2 hao2"),  # decodings disagree
)


def test_each_minimum_confidence_has_its_fraction_and_error_rate():
    found = {smallest: rest for smallest, *rest in pseudo_labels.list_candidates(OUTPUTS, EDITS, 0.0)}
    assert found[0.0] == found[0.6] == [0.75, pytest.approx(1 / 6)]
    assert found[0.7] == found[0.92] == [0.5, 0.0]
    assert found[0.94] == found[0.995] == [0.25, 0.0]
    assert 0.999 not in found  # it keeps no utterances
    assert dict.fromkeys(sorted(found)) == dict.fromkeys(found)


def test_a_higher_disagreement_limit_keeps_more_utterances():
    (smallest, kept, wrong), *_, last = pseudo_labels.list_candidates(OUTPUTS, EDITS, 1.0)
    assert (smallest, kept, wrong) == (0.0, 1.0, 3 / 8)
    assert last == (0.999, 0.25, 1.0)


def test_the_picture_is_a_png(tmp_path):
    path = tmp_path / "confidence.png"
    pseudo_labels.draw(pseudo_labels.list_candidates(OUTPUTS, EDITS, 0.0), 0.05, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
