"""Batches that the hook dumps are compared with the records of the data."""

from __future__ import annotations

import os

import numpy as np
import pytest
import small_records
import tensorflow as tf

from estimator_asr import compare_batches, experiment, model_directory, training_config
from estimator_asr import config as config_lib
from estimator_asr.diagnostics import batch_dump
from estimator_asr.inputs import input_fn, splits
from tfrecord_builder import dataset_info, errors


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("built") / "data")
    small_records.make_data(path)
    return path


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
    """Writes dumps without a training."""
    infos = [dataset_info.DatasetInfo.load(data_dir)]
    config = model.config
    with tf.Graph().as_default():
        tf.compat.v1.set_random_seed(config.train.seed)  # as RunConfig(tf_random_seed) does
        source = splits.read_split(infos, [data_dir], "train", config.spec)
        seed = config.train.seed
        read = input_fn.build_input_fn(
            source, config.input, training=True, seed=seed, num_replicas=num_replicas
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
            data=splits.read_split(infos, [data_dir], "train", config.spec).sha256,
        )
        work = tf.group(list(features.values()))
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(num_batches):
                session.run(work)


def compare(model, data_dir):
    return compare_batches.compare(compare_batches.CompareBatchesConfig(model.path, (data_dir,), "unused"))


def test_batches_equal_their_records(built, tmp_path):
    model = make_model(tmp_path / "AM", built)
    dump(model, built)
    compared = compare(model, built)
    assert [each.mismatches for each in compared] == [[], []]
    assert compared[0].lines[0].startswith("batch-00000.npz: step 0, seed 1, batch 0, ")
    utterances = [line for each in compared for line in each.lines[1:]]
    assert len(set(utterances)) == len(utterances) > 2
    assert all(", frames " in line and "  labels " in line for line in utterances)
    assert any(not line.endswith(", masked 0.0 %") for line in utterances)


def test_the_first_of_two_replicas_is_compared_with_its_part(built, tmp_path):
    model = make_model(tmp_path / "AM", built)
    dump(model, built, 1, num_replicas=2)
    (batch,) = compare(model, built)
    assert batch.mismatches == [] and ", first of 2 replicas, " in batch.lines[0]


def change(path, name, place, value):
    """Changes a number of a dump."""
    with np.load(path) as found:
        arrays = {key: found[key] for key in found.files}
    arrays[name][place] = value
    np.savez(path, **arrays)


def run(capsys, *flags):
    code = compare_batches.main(compare_batches.CompareBatchesConfig(*flags))
    return code, capsys.readouterr().out


def test_each_mismatch_is_printed_and_written_and_the_exit_code_is_1(built, tmp_path, capsys):
    model = make_model(tmp_path / "AM", built)
    dump(model, built)
    change(os.path.join(model.path, "batches", "batch-00001.npz"), "features/fbank", (0, 2, 3), 77)
    code, text = run(capsys, model.path, (built,), str(tmp_path / "report"))
    assert code == 1 and (tmp_path / "report" / "batches.txt").read_text("utf-8") == text
    lines = text.splitlines()
    assert lines[0].startswith("batch-00000.npz: step 0, seed 1, batch 0, ") and "  labels " in lines[1]
    assert lines[-2].startswith("batch-00001.npz: ") and "bin 3 of frame 2 is 77, expected " in lines[-2]
    assert "from the batch read again, expected the same" in lines[-1]


def test_text_is_compared_in_ids_and_the_exit_code_is_0(text, tmp_path, capsys):
    model = make_model(tmp_path / "LM", text, "language")
    dump(model, text, 1)
    code, said = run(capsys, model.path, (text,), str(tmp_path / "report"))
    lines = said.splitlines()
    assert (code, lines[-1]) == (0, "all as in the records") and len(lines) > 2
    assert "  labels " in lines[1] and "frames" not in said


def test_without_dumps_the_message_names_the_flag(text, tmp_path):
    with pytest.raises(
        errors.UserError, match="LM/batches: contains no batches; train with --dump_batches=2"
    ):
        compare(make_model(tmp_path / "LM", text, "language"), text)


def test_other_data_is_refused(text, tmp_path):
    model = make_model(tmp_path / "LM", text, "language")
    dump(model, text, 1)
    other = str(tmp_path / "other")
    small_records.make_data(other, [("train", 11)], with_audio=False)
    with pytest.raises(errors.UserError, match="other: the shards of train differ from those of .*batch-000"):
        compare(model, other)


def test_a_position_that_the_data_does_not_have_is_refused(text, tmp_path):
    model = make_model(tmp_path / "LM", text, "language")
    dump(model, text, 1)
    change(os.path.join(model.path, "batches", "batch-00000.npz"), "features/seed", 0, 7)
    with pytest.raises(errors.UserError, match="utterances are not the .* of the data in batch 0 of seed 7"):
        compare(model, text)


def test_another_seed_of_a_later_run_does_not_matter(text, tmp_path):
    dump(make_model(tmp_path / "LM", text, "language"), text, 1)
    (batch,) = compare(make_model(tmp_path / "LM", text, "language", seed=99), text)
    assert batch.mismatches == [] and "seed 1, batch 0" in batch.lines[0]


def test_settings_of_another_version_are_refused(text, tmp_path):
    model = make_model(tmp_path / "LM", text, "language")
    dump(model, text, 1)
    change(os.path.join(model.path, "batches", "batch-00000.npz"), "config", (), '{"x": 1}')
    with pytest.raises(errors.UserError, match="batch-00000.npz: was written by another version"):
        compare(model, text)


@pytest.mark.parametrize("missing", ["model_dir", "data_dir", "output_dir"])
def test_missing_flags_are_named(missing):
    flags = {"model_dir": "AM", "data_dir": ("DATA",), "output_dir": "OUT", missing: None}
    with pytest.raises(errors.UserError, match=f"--{missing} is missing; pass it"):
        compare_batches.CompareBatchesConfig(**flags)


def test_an_output_directory_that_is_a_file_is_named(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.UserError, match=r"file: cannot be written \(File exists\), expected a direct"):
        run(capsys, "AM", ("DATA",), str(tmp_path / "file"))
