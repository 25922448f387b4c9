"""The page's recogniser in Node returns the same results as the Python one, for exports of random weights."""

import json
import os
import shutil
import subprocess

import node
import numpy as np
import paths
import pytest

from estimator_asr_runtime import model as model_lib
from estimator_asr_runtime import page as page_lib
from estimator_asr_runtime import recogniser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    node.NEEDS_ONNXRUNTIME_WEB,
]
PROGRAM = paths.ROOT / "tests" / "support" / "runtime" / "recognise.mjs"
TUNED = {
    "token_bonus": 0.5,
    "attention_weight": 0.4,
    "language_weight": 0.3,
    "confidence_scale": 0.8,
    "confidence_offset": 0.2,
}
CASES = {
    "all": {"with_ngrams": True, **TUNED},
    "plain": {},
    "marks": {"with_marks": True},
    "narrow": {"with_ngrams": True, "beam_width": 6, "candidates": 3, "skipped_blank": 0.2, **TUNED},
    "greedy": {"decoding": "greedy", "language_weight": 0.3},
    "initial_final": {"with_ngrams": True, **TUNED},
}
TEXTS = ("transcript", "pinyin", "greedy_pinyin", "status")
STRINGS = ("character", "pinyin", "mark")


@pytest.fixture(scope="module")
def exports():
    pytest.importorskip("tensorflow")
    import format_exports

    return format_exports


def recognise_in_node(directory, page: str, waveforms) -> list[dict]:
    (directory / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    library = os.path.dirname(page_lib.find_library(os.environ["ONNXRUNTIME_WEB"]).wasm)
    names = [str(directory / f"{i}.raw") for i in range(len(waveforms))]
    for name, waveform in zip(names, waveforms):
        waveform.astype("<f4").tofile(name)
    command = ["node", str(PROGRAM), page, os.path.abspath(library), *names]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def list_numbers(result: dict) -> list[float]:
    scores = [result[name] for name in ("acoustic_score", "language_score", "confidence")]
    times = [each[name] for each in result["characters"] for name in ("start", "end", "confidence")]
    return scores + times


def assert_equal(found: dict, expected: dict):
    assert set(found) == set(expected)
    for name in {*TEXTS, "punctuated", "written"} & set(expected):
        assert found[name] == expected[name]
    for each, other in zip(found["characters"], expected["characters"], strict=True):
        assert set(each) == set(other)
        assert [each.get(name) for name in STRINGS] == [other.get(name) for name in STRINGS]
    np.testing.assert_allclose(list_numbers(found), list_numbers(expected), rtol=1e-4, atol=1e-4)
    scores = [{each["transcript"]: each["score"] for each in some["n_best"]} for some in (found, expected)]
    assert set(scores[0]) == set(scores[1])
    np.testing.assert_allclose(
        [scores[0][text] for text in scores[1]], list(scores[1].values()), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("case", CASES)
def test_results_equal_those_of_the_python_runtime(exports, tmp_path, case):
    export = exports.export_onnx(str(tmp_path), **CASES[case])
    if case == "initial_final":
        exports.speak_initials_and_finals(export)
    page = exports.write_page(export, str(tmp_path / "page"))
    speech = recogniser.Recogniser(model_lib.load(export))
    found = recognise_in_node(tmp_path, page, exports.WAVEFORMS)
    assert len(found) == len(exports.WAVEFORMS) and any(each["characters"] for each in found)
    for each, waveform in zip(found, exports.WAVEFORMS):
        assert_equal(each, speech.recognise(waveform))


def test_statuses(exports, tmp_path):
    export = exports.export_onnx(str(tmp_path))
    model = model_lib.load(export)
    sizes = 0, model.settings.min_samples - 1, 4000, 4000, 4000
    waveforms = [np.full(size, value, np.float32) for size, value in zip(sizes, (1, 1, 1e-4, np.nan, 1e13))]
    waveforms.append(np.ones(model.settings.max_seconds * model.settings.sample_rate + 1, np.float32))
    found = recognise_in_node(tmp_path, exports.write_page(export, str(tmp_path / "page")), waveforms)
    expected = [recogniser.Recogniser(model).recognise(each) for each in waveforms]
    assert found == expected
    assert [each["status"] for each in found] == [
        *("empty", "empty", "silent", "not_finite", "not_finite", "too_long")
    ]
