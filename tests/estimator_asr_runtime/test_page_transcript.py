"""The page shows a result, in Node with HTML elements that only keep their content."""

import json

import node

PROGRAM = """
import { showResult } from "./transcript.js";
const makeElement = () => ({
  children: [],
  style: {},
  append(...parts) { this.children.push(...parts); },
  replaceChildren(...parts) { this.children = parts; },
});
const elements = {};
globalThis.document = {
  createElement: makeElement,
  getElementById: (id) => (elements[id] ??= makeElement()),
};
showResult(JSON.parse(process.argv[2]), { characterTimes: () => "" });
const { written, transcript } = elements;
const characters = transcript.children.map(({ children }) => children[0]);
console.log(JSON.stringify([written.hidden, written.textContent, characters]));
"""
RESULT = {
    "transcript": "二十好",
    "characters": [{"character": c, "pinyin": c, "start": 0, "end": 1, "confidence": 1} for c in "二十好"],
    "n_best": [],
}


def show(directory, result: dict) -> list:
    return node.run(directory, PROGRAM, ["transcript.js"], json.dumps(result))


def test_the_written_text_is_above_the_characters(tmp_path):
    marked = {**RESULT, "punctuated": "二十，好。", "written": "20，好。"}
    assert show(tmp_path, marked) == [False, "20，好。", ["二", "十", "好"]]


def test_without_a_punctuation_model_only_the_characters_are_shown(tmp_path):
    assert show(tmp_path, RESULT) == [True, "", ["二", "十", "好"]]
