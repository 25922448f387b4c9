from __future__ import annotations

import pytest

from estimator_asr.checkpointing import best_checkpoints
from estimator_asr.diagnostics.doctor import model
from tfrecord_builder import errors


def test_a_model_that_opens_is_listed_with_its_step(tiny_export):
    found = [tuple(finding) for finding in model.check(tiny_export.acoustic_dir)]
    assert found[:2] == [
        ("ok", "acoustic model of token type syllable with 7 classes; all files are there"),
        ("ok", "checkpoint of step 7 can be read"),
    ]
    assert found[2][0] == "warning" and "nothing has been evaluated yet" in found[2][1] and len(found) == 3


def test_best_evaluation_and_last_alarm_are_listed(tiny_export, monkeypatch):
    entry = best_checkpoints.Entry(6, 0.125, {})
    monkeypatch.setattr(model.best_checkpoints, "read", lambda path: [entry])
    monkeypatch.setattr(model.watchdog, "last_alarm", lambda path: (5, "all is lost"))
    found = [tuple(finding) for finding in model.check(tiny_export.acoustic_dir)]
    assert found[2:] == [
        ("ok", "best on dev at step 6: token-error-rate 0.1250"),
        ("warning", "last alarm at step 5: all is lost"),
    ]


def test_a_directory_without_a_model_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match="model directory does not exist"):
        list(model.check(str(tmp_path / "nowhere")))


def test_data_and_model_are_compared(tiny_export):
    finding, of_batch = model.check_data(tiny_export.acoustic_dir, [tiny_export.data_dir])
    assert of_batch.text.startswith("the first batch has what its ")
    assert finding.level == "ok" and finding.text.startswith(f"{tiny_export.data_dir} has the vocabulary")
    with pytest.raises(errors.UserError, match="sha256 of tokens.txt is .*, expected"):
        list(model.check_data(tiny_export.language_dir, [tiny_export.data_dir]))
