"""Batches that the input gives and the hook dumps, compared with the data and the audio of a true build."""

from __future__ import annotations

import os
import shutil

import built_data
import numpy as np
import programs
import pytest
import small_records
import tensorflow as tf

from estimator_asr import compare_batches, experiment, model_directory, training_config
from estimator_asr import config as config_lib
from estimator_asr.diagnostics import batch_dump
from estimator_asr.inputs import input_fn
from tfrecord_builder import dataset_info, errors


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return built_data.make(tmp_path_factory.mktemp("built"))


@pytest.fixture
def text(tmp_path):
    small_records.make_data(str(tmp_path / "text"), with_audio=False)
    return str(tmp_path / "text")


def make_model(path, data_dir, model="acoustic", **train):
    settings = experiment.ExperimentConfig.for_data(
        dataset_info.DatasetInfo.load(data_dir),
        input=config_lib.InputConfig(batch_frames=300, num_buckets=2, time_mask_fraction=0.5),
        train=training_config.TrainConfig(model=model, **train),
    )
    return model_directory.create_or_check(str(path), settings, data_dir)


def dump(model, data_dir, num_batches=2, num_replicas=1):
    """Does what training does, but for the training."""
    infos = [dataset_info.DatasetInfo.load(data_dir)]
    config = model.config
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(config.train.seed)  # as RunConfig(tf_random_seed) does
        read = input_fn.build_input_fn(
            infos,
            [data_dir],
            "train",
            config.input,
            model=config.model,
            training=True,
            seed=config.train.seed,
            num_replicas=num_replicas,
        )
        first_parts = read().shard(num_replicas, 0)
        features, labels = tf.compat.v1.data.make_one_shot_iterator(first_parts).get_next()
        step = tf.compat.v1.train.create_global_step()
        hook = batch_dump.BatchDumpHook(
            features,
            labels,
            tf.identity(step),
            model_dir=model.path,
            num_batches=num_batches,
            num_replicas=num_replicas,
            config=config.to_json(),
            data=batch_dump.fingerprint(infos, "train"),
        )
        work = tf.group(list(features.values()))
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(num_batches):
                session.run(work)


def compare(model, data_dir, output_dir):
    config = compare_batches.CompareBatchesConfig(model.path, (data_dir,), str(output_dir))
    return compare_batches.compare(config)


def test_batches_are_what_records_and_recordings_are(built, tmp_path):
    model = make_model(tmp_path / "AM", built)
    dump(model, built)
    compared = compare(model, built, tmp_path / "report")
    assert [each.mismatches for each in compared] == [[], []]
    assert compared[0].title.startswith("batch-00000.npz: step 0, seed 1, batch 0, ")
    utterances = [each for batch in compared for each in batch.utterances]
    assert len({each.utterance_id for each in utterances}) == len(utterances) > 2
    for each in utterances:
        assert each.labels == each.pronunciation and each.facts["recording"] == "differs by at most 0.0e+00"
        assert each.audio.startswith("file:///") and len(each.pictures) == 3
    assert any(each.facts["masked"] != "0.0 %" for each in utterances)
    html = (tmp_path / "report" / "batches.html").read_text("utf-8")
    assert all(each.utterance_id in html for each in utterances)


def test_the_first_of_two_replicas_is_compared_with_its_part(built, tmp_path):
    model = make_model(tmp_path / "AM", built)
    dump(model, built, 1, num_replicas=2)
    compared = compare(model, built, tmp_path / "report")
    assert [each.mismatches for each in compared] == [[]]
    assert ", first of 2 replicas, " in compared[0].title


def test_text_is_compared_in_ids(text, tmp_path):
    model = make_model(tmp_path / "LM", text, "language")
    dump(model, text, 1)
    (batch,) = compare(model, text, tmp_path / "report")
    assert batch.mismatches == [] and batch.utterances
    assert all(not each.pictures and set(each.facts) == {"labels"} for each in batch.utterances)


def change(path, name, place, value):
    """Changes a number of a dump."""
    with np.load(path) as found:
        arrays = {key: found[key] for key in found.files}
    arrays[name][place] = value
    np.savez(path, **arrays)


def run(model_dir, data_dir, output_dir):
    flags = [f"--model_dir={model_dir}", f"--data_dir={data_dir}", f"--output_dir={output_dir}"]
    return programs.run("estimator_asr.compare_batches", *flags)


def test_the_program_names_each_mismatch_and_exits_1(built, tmp_path):
    model = make_model(tmp_path / "AM", built)
    dump(model, built)
    path = os.path.join(model.path, "batches", "batch-00001.npz")
    change(path, "features/fbank", (0, 2, 3), 77)
    completed = run(model.path, built, tmp_path / "report")
    assert completed.returncode == 1 and completed.stderr == ""
    lines = completed.stdout.splitlines()
    assert lines[0].startswith("batch-00000.npz: step 0, seed 1, batch 0, ")
    assert "  labels " in lines[1] and ", recording differs by at most 0.0e+00" in lines[1]
    assert lines[-3] == f"page: {tmp_path}/report/batches.html"
    assert lines[-2].startswith("batch-00001.npz: ") and "bin 3 of frame 2 is 77, expected " in lines[-2]
    assert "from what the data gives again, expected the same" in lines[-1]


def test_the_program_says_that_all_is_right_and_exits_0(text, tmp_path, capsys, monkeypatch):
    model = make_model(tmp_path / "LM", text, "language")
    dump(model, text, 1)
    config = compare_batches.CompareBatchesConfig(model.path, (text,), str(tmp_path / "report"))
    monkeypatch.setattr(compare_batches.config_flags, "from_flags", lambda _: config)
    assert compare_batches.main([]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "all as in the records"


def test_without_dumps_it_says_how_to_get_some(text, tmp_path):
    said = "LM/batches: there are no batches, expected some; train with --dump_batches=2"
    with pytest.raises(errors.UserError, match=said):
        compare(make_model(tmp_path / "LM", text, "language"), text, tmp_path / "report")


def test_a_recording_that_changed_is_a_mismatch_and_one_that_is_gone_is_not(built, tmp_path):
    data_dir = shutil.copytree(built, tmp_path / "data")
    model = make_model(tmp_path / "AM", built)
    dump(model, built, 1)
    (batch,) = compare(model, str(data_dir), tmp_path / "report")
    one, other, third = (each.audio.removeprefix("file://").split("#")[0] for each in batch.utterances[:3])
    for path in data_dir.glob("train*.jsonl"):
        lines = path.read_text("utf-8").replace(other, third).replace(one, "/gone.wav")
        path.write_text(lines, encoding="utf-8")
    (again,) = compare(model, str(data_dir), tmp_path / "report")
    assert again.utterances[0].facts["recording"] == "/gone.wav: there is no such file"
    (mismatch,) = again.mismatches
    assert (
        mismatch.startswith(f"{batch.utterances[1].utterance_id}: ") and f"its recording {third}" in mismatch
    )


def test_other_data_is_refused(text, tmp_path):
    model = make_model(tmp_path / "LM", text, "language")
    dump(model, text, 1)
    other = str(tmp_path / "other")
    small_records.make_data(other, [("train", 11)], with_audio=False)
    with pytest.raises(
        errors.UserError, match="other: the shards of train are others than .*batch-00000.npz was"
    ):
        compare(model, other, tmp_path / "report")


def test_a_position_that_the_data_does_not_have_is_refused(text, tmp_path):
    model = make_model(tmp_path / "LM", text, "language")
    dump(model, text, 1)
    change(os.path.join(model.path, "batches", "batch-00000.npz"), "features/seed", 0, 7)
    with pytest.raises(
        errors.UserError, match="utterances are not the .* that the data gives as batch 0 of seed 7"
    ):
        compare(model, text, tmp_path / "report")


def test_another_seed_of_a_later_run_does_not_matter(text, tmp_path):
    dump(make_model(tmp_path / "LM", text, "language"), text, 1)
    model = make_model(tmp_path / "LM", text, "language", seed=99)
    (batch,) = compare(model, text, tmp_path / "report")
    assert batch.mismatches == [] and "seed 1, batch 0" in batch.title


def test_settings_of_another_version_are_refused(text, tmp_path):
    model = make_model(tmp_path / "LM", text, "language")
    dump(model, text, 1)
    change(os.path.join(model.path, "batches", "batch-00000.npz"), "config", (), '{"x": 1}')
    with pytest.raises(errors.UserError, match="batch-00000.npz: its settings are not those of this version"):
        compare(model, text, tmp_path / "report")


@pytest.mark.parametrize("missing", ["model_dir", "data_dir", "output_dir"])
def test_missing_flags_are_named(missing):
    flags = {"model_dir": "AM", "data_dir": ("DATA",), "output_dir": "OUT", missing: None}
    with pytest.raises(errors.UserError, match=f"--{missing} is missing; give a directory"):
        compare_batches.CompareBatchesConfig(**flags)


def test_an_output_directory_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.UserError, match=r"--output_dir=.*file is a file, expected a directory"):
        compare_batches.CompareBatchesConfig("AM", ("DATA",), str(tmp_path / "file"))
