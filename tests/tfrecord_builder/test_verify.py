import os
import pathlib
import shutil

import built_data
import numpy as np
import programs
import pytest

from tfrecord_builder import errors, verify

SHARD = "train-00000-of-00003.tfrecord"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return built_data.make(tmp_path_factory.mktemp("whole"), 75, 3)


@pytest.fixture
def data_dir(whole, tmp_path):
    return pathlib.Path(shutil.copytree(whole, tmp_path / "data"))


def _run(*arguments):
    return programs.run("tfrecord_builder.verify", *arguments)


def test_right_data_say_how_much_was_read(whole, data_dir):
    done = _run(f"--data_dir={whole},{data_dir}", "--sample=5")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"{whole}: 6 shards, 78 records, all right",
        f"{data_dir}: 6 shards, 78 records, all right",
    ]


def test_a_problem_is_a_line_and_exit_code_one(whole, data_dir):
    (data_dir / "readings.tsv").write_text("")
    done = _run(f"--data_dir={data_dir},{data_dir}/nowhere,{whole}", "--sample=5")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{data_dir}/readings.tsv: its sha256 is e3b0c44298fc1c14..., expected ")
    assert lines[1] == f"{data_dir}: 6 shards, 78 records, problems: 1"
    assert lines[2] == f"{data_dir}/nowhere: there is no such data directory; build it first"
    assert lines[3] == f"{whole}: 6 shards, 78 records, all right"


def test_info_that_cannot_be_read_does_not_keep_from_the_next(whole, data_dir, capsys):
    os.remove(data_dir / "dataset_info.json")
    os.mkdir(data_dir / "dataset_info.json")
    assert not verify.verify(str(data_dir), 0, 1)
    assert capsys.readouterr().out == f"{data_dir}/dataset_info.json: Is a directory\n"


def test_missing_data_dir_is_one_sentence():
    done = _run()
    assert done.returncode == 1
    assert done.stderr == "error: --data_dir: it is missing, expected a directory; pass --data_dir=DATA.\n"
    with pytest.raises(errors.UserError, match="--sample=-1: expected at least 0"):
        verify.VerifyConfig(data_dir=("x",), sample=-1)


def test_many_problems_of_one_kind_are_twenty_lines_and_a_count(data_dir, capsys):
    records = built_data.read(data_dir / SHARD)
    wrong = [
        built_data.change(each, str(data_dir), fbank=np.full([48, 80], np.inf, np.float16))
        for each in records
    ]
    built_data.rewrite(str(data_dir), SHARD, wrong)
    os.remove(data_dir / "rejected.tsv")
    assert not verify.verify(str(data_dir), 0, 1)
    lines = capsys.readouterr().out.splitlines()
    assert sum("NaN or infinite" in line for line in lines) == 20
    assert lines[-2:] == [
        f"{data_dir}: and 5 more wrong records",
        f"{data_dir}: 6 shards, 78 records, problems: 26",
    ]
    assert any("rejected.tsv: it is missing" in line for line in lines)
