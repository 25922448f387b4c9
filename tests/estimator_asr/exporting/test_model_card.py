"""The model card, from data and reports."""

from __future__ import annotations

import json

import pytest

from estimator_asr.exporting import model_card
from estimator_asr.saved_model import export_info
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info

RATE = {"rate": 0.105, "errors": 145, "confidence_interval": [0.07, 0.146]}
METRICS = {"data": "/c/DATA,/c/MORE/", "split": "test", "num_utterances": 1120, "character_error_rate": RATE}


def write_card(tiny_export, tmp_path, **facts) -> str:
    (tmp_path / "assets.extra").mkdir()
    data = {"/c/data": dataset_info.DatasetInfo.load(tiny_export.data_dir)}
    facts = {"data": data, "metrics": [METRICS], "licence": "CC-BY-4.0", "parity": "Recognises 4.", **facts}
    model_card.write(str(tmp_path), export_info.load(tiny_export.version_dir), model_card.Facts(**facts))
    return (tmp_path / "assets.extra" / "model_card.md").read_text(encoding="utf-8")


def test_card_of_data_and_reports(tiny_export, tmp_path):
    card = write_card(tiny_export, tmp_path)
    assert "Speech to hanzi, at 16000 Hz: acoustic model of 7 steps and language model of 7 steps.\n" in card
    assert "decoding beam, beam_width 10" in card
    assert "Recognises 4.\n" in card
    # 8 utterances of 0.25 s and 3,000 samples more each time, by three speakers.
    assert "| data | train | 0.00 | 8 | 3 |" in card
    assert (
        "| DATA, MORE | test | character error rate | 10.50 % (95 % interval 7.00 to 14.60 %) | 145 | 1,120 |"
        in card
    )
    assert card.endswith("## Licence\n\nCC-BY-4.0\n")


def test_card_says_what_is_not_stated(tiny_export, tmp_path):
    card = write_card(tiny_export, tmp_path, data={}, metrics=[], licence="")
    assert card.count("Not stated: ") == 3


def test_reads_reports(tmp_path):
    (tmp_path / "metrics.json").write_text(json.dumps(METRICS))
    assert model_card.read_metrics(str(tmp_path)) == METRICS


@pytest.mark.parametrize("content", ["{", "[]", "{}", json.dumps({**METRICS, "token_error_rate": 3})])
def test_other_files_are_no_reports(tmp_path, content):
    (tmp_path / "metrics.json").write_text(content)
    with pytest.raises(
        errors.UserError,
        match=r"^export: --report_dir=\S+: metrics.json cannot be read \(\w+: .*\), expected a report of "
        r"evaluate; give its --output_dir$",
    ):
        model_card.read_metrics(str(tmp_path))


def test_missing_report(tmp_path):
    with pytest.raises(errors.UserError, match="cannot be read .FileNotFoundError"):
        model_card.read_metrics(str(tmp_path))
