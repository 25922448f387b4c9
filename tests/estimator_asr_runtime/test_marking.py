"""Marks and numbers in transcripts, with a punctuation graph in plain Python."""

import dataclasses
import json
import re

import node
import numpy as np
import pytest
import runtime_models
from runtime_models import make_log_probs, make_model

from estimator_asr_runtime import joining, marking, model_json, recogniser, written_form

MARKS = ("", "，", "。")
CHARACTERS = ("<unk>", "你", "好", "二", "十", "三", "个")
SETTINGS = model_json.Punctuation(MARKS, pause_weight=0.0, pause_offset=0.0, longest_pause=1.0)
PROGRAM = """
import { punctuate } from "./marking.js";
const [settings, characters, scores] = process.argv.slice(2).map((text) => JSON.parse(text));
const model = {
  settings,
  ort: { Tensor: class {} },
  punctuationIds: new Map(),
  punctuation: { run: () => ({ scores: { data: Float32Array.from(scores) } }) },
  writtenForm: { write: (text) => text },
};
console.log(JSON.stringify(await punctuate(model, { characters })));
"""


class MarksGraph:
    """Scores marks so that 好 is followed by "，", <unk> by "。", and every other character by no mark.

    The log odds of these marks are 2, those of all others -2.
    """

    def __init__(self):
        self.inputs = []

    def run(self, inputs):
        self.inputs.append({name: value.tolist() for name, value in inputs.items()})
        scores = {"你": [2, 0, -3], "好": [0, 2, -3], "<unk>": [0, -3, 2]}
        rows = [scores.get(CHARACTERS[index], [2, -3, 0]) for index in inputs["character_ids"][0]]
        self.scores = np.float32([rows])
        return {"scores": self.scores}


def make_punctuator(graph=None, **settings) -> marking.Punctuator:
    return marking.Punctuator(
        graph or MarksGraph(),
        {character: index for index, character in enumerate(CHARACTERS)},
        dataclasses.replace(SETTINGS, **settings),
        joining.JOININGS["character"],
        written_form.load(),
    )


def punctuate(text: str, pauses=(), **settings) -> dict:
    """Marks a text whose characters take 0.5 s each; `pauses` are the seconds after them, by default 0."""
    items, time = [], 0.0
    for index, character in enumerate(re.findall("<space>|.", text)):
        items.append({"character": character, "start": time, "end": time + 0.5})
        time += 0.5 + (pauses[index] if index < len(pauses) else 0)
    result = {"transcript": text, "characters": items, "status": "ok"}
    return make_punctuator(**settings).punctuate(result)


def test_marks_follow_characters():
    found = punctuate("你好好你")
    assert (found["transcript"], found["punctuated"]) == ("你好好你", "你好，好，你，")
    assert [item["mark"] for item in found["characters"]] == ["", "，", "，", "，"]
    assert found["status"] == "ok"


def test_numbers_are_written_in_digits():
    found = punctuate("你好二十三个")
    assert (found["punctuated"], found["written"]) == ("你好，二十三个。", "你好，23个。")
    assert punctuate("二十好十三个")["written"] == "20好，13个。"  # no number crosses a mark


def test_an_unknown_character_is_id_0():
    graph = MarksGraph()
    result = {"characters": [{"character": each, "start": 0.0, "end": 0.0} for each in "你犇"]}
    assert make_punctuator(graph).punctuate(result)["punctuated"] == "你犇。"
    assert graph.inputs == [{"character_ids": [[1, 0]], "num_characters": [2]}]


def test_no_mark_follows_a_space_and_no_space_follows_a_mark():
    found = punctuate("你<space>好<space><space>你<space>")
    assert (found["punctuated"], found["written"]) == ("你 好，你 ", "你 好，你 ")


@pytest.mark.parametrize("text", ["你好好你", "你<space>好<space><space>你<space>", "犇<space>好<space>"])
def test_marks_of_the_page_are_those_of_python(text, tmp_path):
    expected, graph = punctuate(text), MarksGraph()
    characters = [{**item, "mark": None} for item in expected["characters"]]
    make_punctuator(graph)._find_marks(characters)
    scores = graph.scores.ravel().tolist()
    rules = joining.JOININGS["character"]._asdict()
    settings = {"joining": rules, "punctuation": dataclasses.asdict(SETTINGS)}
    arguments = map(json.dumps, (settings, characters, scores))
    found = node.run(tmp_path, PROGRAM, ["marking.js", "joining.js"], *arguments)
    assert found["punctuated"] == expected["punctuated"]
    assert [item["mark"] for item in found["characters"]] == [item["mark"] for item in expected["characters"]]


@pytest.mark.parametrize(
    ("pause", "weight", "offset", "text"),
    [
        (0.0, 5.0, 0.0, "你你，"),
        (0.3, 5.0, 0.0, "你你，"),  # 5 x 0.3 = 1.5, less than 2
        (0.5, 5.0, 0.0, "你，你，"),  # 2.5
        (0.5, 5.0, 0.2, "你你，"),  # 5 x (0.5 - 0.2) = 1.5
        (3.0, 1.5, 0.0, "你你，"),  # a pause counts as at most 1 s
        (3.0, 2.5, 0.0, "你，你，"),
    ],
)
def test_pauses_make_marks_likelier(pause, weight, offset, text):
    settings = {"pause_weight": weight, "pause_offset": offset}
    assert punctuate("你你", [pause], **settings)["punctuated"] == text


def test_short_pauses_make_marks_rarer():
    assert punctuate("好好", [0.1, 9], pause_weight=5.0, pause_offset=0.6)["punctuated"] == "好好，"


def test_a_mark_follows_the_last_character_although_no_mark_is_likelier():
    assert punctuate("你", pause_weight=5.0, pause_offset=1.0)["punctuated"] == "你，"


def test_results_of_the_recogniser():
    """The audio has six frames of 40 ms: 你 from 0.04 s to 0.08 s, 好 from 0.16 s to 0.24 s."""
    model = make_model(make_log_probs([4, 1, 4, 4, 2, 2]), runtime_models.LanguageGraph())
    settings = {"pause_weight": 30.0, "pause_offset": 0.01}  # 30 x (0.08 - 0.01) is 2.1, and for 好 -0.3
    model = dataclasses.replace(model, punctuation=make_punctuator(**settings))
    found = recogniser.Recogniser(model).recognise(np.full(16000, 0.1, np.float32))
    assert (found["transcript"], found["punctuated"], found["written"]) == ("你好", "你，好，", "你，好，")
    assert list(found["characters"][0]) == ["character", "pinyin", "start", "end", "confidence", "mark"]
    assert found["n_best"][0]["transcript"] == "你好"


def test_silence_has_empty_texts_and_the_graph_does_not_run():
    graph = MarksGraph()
    model = make_model(make_log_probs([4, 4], most=0.999), runtime_models.LanguageGraph())
    loaded = recogniser.Recogniser(dataclasses.replace(model, punctuation=make_punctuator(graph)))
    for speech in (np.zeros(16000), np.full(16000, 0.1)):
        found = loaded.recognise(np.float32(speech))
        assert (found["punctuated"], found["written"], found["characters"]) == ("", "", [])
    assert graph.inputs == []
