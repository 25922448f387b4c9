import os
import shutil

import built_data
import numpy as np
import programs
import pytest

from tfrecord_builder import errors, verify

SHARD = "train-00000-of-00003.tfrecord"


@pytest.mark.long
def test_a_problem_is_printed_in_one_line_with_exit_code_1(built, data_dir):
    (data_dir / "readings.tsv").write_text("")
    directories = f"--data_dir={data_dir},{data_dir}/nowhere,{built}"
    done = programs.run("tfrecord_builder.verify", directories, "--sample=5")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{data_dir}/readings.tsv: sha256 is e3b0c44298fc1c14..., expected ")
    assert lines[1] == f"{data_dir}: 6 shards, 15 records, problems: 1"
    assert lines[2] == f"{data_dir}/nowhere: data directory does not exist; build it first"
    assert lines[3] == f"{built}: 6 shards, 15 records, no problems"


def test_unreadable_dataset_info_is_a_problem(built, data_dir, capsys):
    os.remove(data_dir / "dataset_info.json")
    os.mkdir(data_dir / "dataset_info.json")
    assert not verify.verify(str(data_dir), 0, 1)
    assert capsys.readouterr().out == f"{data_dir}/dataset_info.json: Is a directory\n"


@pytest.mark.parametrize(
    "old, new, said",
    [
        (
            '"feature_mean": [',
            '"feature_mean": [NaN,',
            "DatasetInfo.feature_mean is nan, expected a finite nu",
        ),
        (f'"{SHARD}"', f'"../{SHARD}"', f"shard is '../{SHARD}', expected a file name without a directory"),
    ],
)
def test_impossible_values_in_dataset_info_are_problems(data_dir, capsys, old, new, said):
    path = data_dir / "dataset_info.json"
    shutil.copy(data_dir / SHARD, data_dir.parent)
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert not verify.verify(str(data_dir), 0, 1)
    assert capsys.readouterr().out.startswith(f"{path}: {said}")


def test_wrong_settings_are_refused():
    with pytest.raises(errors.UserError) as caught:
        verify.VerifyConfig()
    assert str(caught.value) == "--data_dir is missing; pass it (comma-separated data directories)"
    with pytest.raises(errors.UserError, match="--sample=-1: expected at least 0"):
        verify.VerifyConfig(data_dir=("x",), sample=-1)


def test_many_problems_of_one_kind_are_printed_as_a_few_lines_and_a_count(data_dir, capsys, monkeypatch):
    monkeypatch.setattr(verify, "_MAX_LINES", 2)
    records = built_data.read(data_dir / SHARD)
    nan = np.full([48, 80], np.nan, np.float16)
    wrong = [built_data.change(each, str(data_dir), fbank=nan) for each in records]
    built_data.rewrite(str(data_dir), SHARD, wrong)
    os.remove(data_dir / "rejected.tsv")
    assert not verify.verify(str(data_dir), 0, 1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{data_dir}/rejected.tsv: file is missing; copy or build the data again"
    assert sum("NaN or Inf" in line for line in lines) == 2
    assert lines[-2:] == [
        f"{data_dir}: and {len(records) - 2} more wrong records",
        f"{data_dir}: 6 shards, 15 records, problems: {len(records) + 1}",
    ]
