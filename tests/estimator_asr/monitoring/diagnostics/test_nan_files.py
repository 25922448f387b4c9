import json
import math
import os
import pathlib

import numpy as np
import pytest
import small_records

from estimator_asr.monitoring.diagnostics import nan_files
from tfrecord_builder import errors
from tfrecord_builder.data import schema

UTTERANCES = [nan_files.BatchRow("train000", "S0", 16, 1), nan_files.BatchRow("train001", "S1", 33, 2)]


def make_records(with_audio=True):
    records = small_records.make_records("train", 2, with_audio=with_audio)
    return [schema.make_example(record) for record in records]


def save(prefix):
    pathlib.Path(f"{prefix}.index").touch()


def write(tmp_path, with_audio=True):
    path = nan_files.step_directory(str(tmp_path), 7)
    report = {"step": 7, "loss": nan_files.to_json(math.nan)}
    return path, nan_files.write(path, report, '{"a": 1}', make_records(with_audio), save)


def test_all_that_is_needed_is_written(tmp_path):
    path, utterances = write(tmp_path)
    assert path == str(tmp_path / "nan" / "step-7") and utterances == UTTERANCES
    names = ["batch.tfrecord", "config.json", "model.ckpt.index", "report.json", "utterances.tsv"]
    assert sorted(os.listdir(path)) == names
    text = pathlib.Path(path, "utterances.tsv").read_text()
    assert text == "utterance_id\tspeaker\tframes\ttokens\ntrain000\tS0\t16\t1\ntrain001\tS1\t33\t2\n"
    assert nan_files.read_records(path) == make_records()
    assert nan_files.read_report(path)["loss"] == "nan"
    json.loads(pathlib.Path(path, "report.json").read_text(), parse_constant=pytest.fail)  # NaN is not JSON
    assert os.listdir(tmp_path / "nan") == ["step-7"]


def test_a_record_of_text_has_zero_frames(tmp_path):
    _, utterances = write(tmp_path, with_audio=False)
    assert utterances == [utterance._replace(frames=0) for utterance in UTTERANCES]


def test_recording_a_step_again_replaces_its_directory(tmp_path):
    path, _ = write(tmp_path)
    leftover = pathlib.Path(path, "leftover")
    leftover.touch()
    write(tmp_path)
    assert not leftover.exists()


def test_the_quarantine_lists_each_step_once(tmp_path):
    model_dir = str(tmp_path)
    assert nan_files.read_quarantine(model_dir) == {}
    os.makedirs(tmp_path / "nan")
    nan_files.add_to_quarantine(model_dir, 12, np.int64([3, 4]), UTTERANCES)
    nan_files.add_to_quarantine(model_dir, 7, [3, 1], UTTERANCES[:1])
    nan_files.add_to_quarantine(model_dir, 12, [3, 4], UTTERANCES[1:])
    assert (tmp_path / "nan" / "quarantine.tsv").read_text() == (
        "step\tepoch_seed\tbatch\tutterance_id\n7\t3\t1\ttrain000\n12\t3\t4\ttrain001\n"
    )
    assert sorted(nan_files.read_quarantine(model_dir)) == [7, 12]


def test_a_directory_without_a_report_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match=r"report.json: report cannot be read .*; pass a step-N dir"):
        nan_files.read_report(str(tmp_path))


@pytest.mark.parametrize("content", [None, bytes(20)])
def test_records_that_are_missing_or_damaged_are_refused(tmp_path, content):
    if content:
        (tmp_path / "batch.tfrecord").write_bytes(content)
    said = "batch.tfrecord: records cannot be read .*; pass a step-N dir"
    with pytest.raises(errors.UserError, match=said):
        nan_files.read_records(str(tmp_path))
