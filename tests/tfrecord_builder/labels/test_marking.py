"""Texts are normalised with their punctuation marks, and labelled for the punctuation model."""

import pytest

from tfrecord_builder.data import manifest, marks
from tfrecord_builder.labels import homophones, labelling, marking, normalisation, numerals

NO_SOUNDS = homophones.Homophones({})


@pytest.mark.parametrize(
    "text, want",
    [
        ('他说:"好!"花了3.5元……', "他说：好！花了三点五元。"),
        ("增长37％，3．6万元；比分3：2。", "增长百分之三十七，三点六万元；比分三比二。"),
        ("2026年11月27日，8:30开会？", "二零二六年十一月二十七日，八点三十分开会？"),
        ("GB（千兆字节）级别，A.B公司,OK.", "gb千兆字节级别，a b公司，ok。"),
        ("看www.abc.com，很好~~谢谢", "看www abc com，很好。谢谢"),
        ("走了——没回头，1937年—1945年", "走了，没回头，一九三七年到一九四五年"),
        ("好．真的？！“是。”，", "好。真的？是。"),
        ("，不算数", "不算数"),
        ("《书》、「画」", "书、画"),
        ("", ""),
    ],
)
def test_a_text_keeps_its_marks(text, want):
    assert marking.normalise(text) == want


@pytest.mark.parametrize(
    "text", ["他花了3.5元，买了1,000个；a+b=c。", "I'm OK，it's 12:30.", "《红楼梦》（上）：第2回"]
)
def test_the_characters_are_those_of_a_transcript(text):
    characters, _ = marks.split(marking.normalise(text))
    assert "".join(characters) == normalisation.normalise(numerals.read(text)).replace(" ", "")


@pytest.mark.parametrize(
    "text, want",
    [("你好。", True), ("你好", False), ("3.5元", False), ("8:30", False), ("，", False), ("go. now", True)],
)
def test_only_a_mark_after_a_character_counts(text, want):
    assert marking.has_marks(text) == want


def _label(text, split="dev", sounds=NO_SOUNDS):
    labeller = marking.MarkLabeller(labelling.LabelConfig(), sounds)
    return labeller(manifest.Utterance("u", None, "", text, "", split))


def test_labels_are_characters_and_marks_without_tokens():
    labels = _label("“2个，no way”")
    assert labels == labelling.Labels("两个no way", (), tuple("两个noway"), (0, 1, 0, 0, 0, 0, 0))


def test_characters_are_replaced_in_train_alone(monkeypatch):
    monkeypatch.setattr(homophones, "RATE", 1.0)
    sounds = homophones.Homophones({"是": 5, "事": 1})
    assert _label("是，事", "dev", sounds).transcript == "是事"
    changed = _label("是，事", "train", sounds)
    assert (changed.transcript, changed.characters, changed.mark_ids) == ("事是", ("事", "是"), (1, 0))


def test_dropped_marks_are_counted_by_kind():
    labeller = marking.MarkLabeller(labelling.LabelConfig(), NO_SOUNDS)
    utterance = manifest.Utterance("u", None, "", "“好”（是）·￥，。", "", "dev")
    assert dict(labeller.count_left_out(utterance)) == {
        "quotation marks and brackets": 4,
        "other punctuation marks": 1,
        "symbols": 1,
    }


def test_labels_depend_on_the_homophones():
    first, second = (
        marking.MarkLabeller(labelling.LabelConfig(), homophones.Homophones(counts))
        for counts in ({"是": 1}, {"是": 2})
    )
    assert first.describe() != second.describe()
