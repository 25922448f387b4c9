"""Recognised speech is compared with the text as the corpus writes it."""

from __future__ import annotations

from estimator_asr.evaluation import written_speech
from estimator_asr.scoring import edit_distance
from estimator_asr_runtime import written_form

FORM = written_form.load()


def make_record(written):
    values = {"utterance_id": "u1", "speaker": "S1", "written": written}
    return {name: value.encode() for name, value in values.items()}


def test_the_written_form_keeps_digits_and_drops_marks():
    outputs = written_speech.add({"punctuated": "花了三十五元，对吗？"}, FORM)
    assert outputs == {"punctuated": "花了三十五元，对吗？", "written": "花了35元，对吗？"}
    marked, form = written_speech.compare(make_record("花了“35”元,是吗?"), outputs)
    assert marked == ("u1", "S1", "花了35元，是吗？", "花了三十五元，对吗？")
    assert (form.reference, form.hypothesis) == ("花了35元是吗", "花了35元对吗")
    assert form.edits == edit_distance.Edits(1, 0, 0, 7)  # 对 for 是
    assert marked.is_speaker_known and form.speaker == "S1"


def test_the_written_form_of_another_format_is_kept():
    outputs = {"punctuated": "三十五", "written": "卅五"}
    assert written_speech.add(outputs, FORM) == outputs
