from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sys

import new_models
import numpy as np
import pytest
import tensorflow as tf
import tiny_models
import train_one_step

from estimator_asr import model_builder
from estimator_asr.models import acoustic
from estimator_asr.training import warm_start, weight_files
from tfrecord_builder import errors, vocabulary

TESTS = pathlib.Path(__file__).parent
CHARACTERS = vocabulary.Vocabulary(["<unk>", "好", "你", "爱", "是", "郝"])  # 爱 is new


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    path = tmp_path_factory.mktemp("sources")
    tiny_models.make_acoustic_model(str(path / "am"))
    tiny_models.make_language_model(str(path / "lm"))
    return path


@pytest.fixture
def lines(monkeypatch):
    said = []
    monkeypatch.setattr(warm_start.logging, "info", lambda text, *values: said.append(text % values))
    return said


def prepare(model, **options):
    warm_start.prepare(model, new_models.plan(), new_models.build_input_fn(model), **options)


def read(path):
    return weight_files.read(str(path))[1]


def run_program(name, argument):
    environment = {
        **os.environ,
        "PYTHONPATH": f"{TESTS}{os.pathsep}{TESTS.parent}",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [sys.executable, str(TESTS / name), str(argument)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]


def test_an_acoustic_model_starts_with_the_weights_of_another_vocabulary(tmp_path, sources, lines):
    model = new_models.make_new_model(str(tmp_path / "new"), warm_start_from=str(sources / "am"))
    prepare(model)
    old, new = read(sources / "am"), read(model.path)
    assert new["global_step"] == 0 and not any(np.any(new[name]) for name in new if name.endswith("/Adam"))
    for head in ("ctc", "decoder"):  # <unk> ai4 hao3 ni3 shi4 blank of <unk> hao3 ma5 ni3 shi4 tian1 blank
        vectors = f"acoustic/{head}/class_vectors"
        if vectors not in old:  # tiny_models saves what recognises, without the decoder
            assert head == "decoder"
            continue
        np.testing.assert_array_equal(new[vectors][[0, 2, 3, 4, 5]], old[vectors][[0, 1, 3, 4, 6]])
        assert 0 < np.abs(new[vectors][1]).max() < 0.2  # deviation 0.02
    assert (
        new["acoustic/ctc/bias"][0, 1] == 0
        and new["acoustic/ctc/bias"][0, 5] == old["acoustic/ctc/bias"][0, 6]
    )
    for name in set(old) & set(new) - {"global_step", "acoustic/ctc/bias", "acoustic/ctc/class_vectors"}:
        np.testing.assert_array_equal(new[name], old[name])
    assert lines[0] == f"warm start from {sources}/am/model.ckpt-7"
    assert any(line.split() == ["acoustic/ctc/class_vectors", "5", "1", "2"] for line in lines)


def test_a_language_model_starts_with_tokens_characters_and_readings_of_another(tmp_path, sources, lines):
    path = str(tmp_path / "new")
    model = new_models.make_new_model(
        path, "language", characters=CHARACTERS, warm_start_from=str(sources / "lm")
    )
    prepare(model)
    old, new = read(sources / "lm"), read(path)
    np.testing.assert_array_equal(new["language/tokens"][[0, 2, 3, 4]], old["language/tokens"][[0, 1, 3, 4]])
    # Old characters: <unk> 你 吗 好 妈 字 是 气 郝
    np.testing.assert_array_equal(
        new["language/characters"][[0, 1, 2, 4, 5]], old["language/characters"][[0, 3, 1, 6, 8]]
    )
    # Of <unk>, any character; then ai4 <unk>, hao3 好郝, ni3 你, shi4 是.
    bias, old_bias = new["language/reading_bias"], old["language/reading_bias"]
    assert bias[3] == 0 and bias[6] == 0  # (<unk>, 爱), (ai4, <unk>)
    np.testing.assert_array_equal(bias[7:9], old_bias[9:11])
    assert bias[1] == old_bias[3]
    assert not np.any(new["language/ngrams"])  # their hashes would mean other n-grams
    assert any(line.startswith("  language/ngrams starts anew") for line in lines)
    np.testing.assert_array_equal(
        new["language/ngram_projection/kernel"], old["language/ngram_projection/kernel"]
    )


def assert_trained_one_step_from(path):
    start, end = (read(pathlib.Path(path) / f"model.ckpt-{step}") for step in (0, 1))
    assert end["global_step"] == 1 and set(start) == set(end)
    for name in start:
        if name.startswith("acoustic/") and "moving" not in name and start[name].size and "Adam" not in name:
            atol = 2 if name.endswith("num_updates") else 1e-6
            np.testing.assert_allclose(end[name], start[name], atol=atol, err_msg=name)


def test_training_goes_on_from_it_and_its_counts_begin_at_zero(tmp_path, sources):
    model = new_models.make_new_model(str(tmp_path / "new"), warm_start_from=str(sources / "am"))
    prepare(model)
    assert read(model.path)["acoustic/encoder/batch_norm_0/num_updates"] == 0
    train_one_step.train(model.path, 1)
    assert_trained_one_step_from(model.path)


def test_two_replicas_go_on_from_it(tmp_path, sources):
    model = new_models.make_new_model(str(tmp_path / "new"), warm_start_from=str(sources / "am"))
    prepare(model)
    run_program("train_one_step.py", model.path)
    assert_trained_one_step_from(model.path)


def test_more_layers_start_anew_beside_those_that_fit(tmp_path, sources, lines):
    path = str(tmp_path / "new")
    model = new_models.make_new_model(
        path, acoustic={"encoder_layers": 2}, warm_start_from=str(sources / "am")
    )
    prepare(model)
    name = "acoustic/encoder/block_{}/attention/self_attention/output/kernel"
    new, old = read(path), read(sources / "am")
    np.testing.assert_array_equal(new[name.format(0)], old[name.format(0)])
    assert any("starts anew: " in line and "acoustic/encoder/block_1 (" in line for line in lines)


def test_other_units_are_refused_and_nothing_is_written(tmp_path, sources):
    path = str(tmp_path / "new")
    model = new_models.make_new_model(
        path, acoustic={"encoder_units": 32}, warm_start_from=str(sources / "am")
    )
    said = r"model.ckpt-7: \d+ of \d+ variables fit into the model of .*acoustic/ctc/class_vectors \[6, 32\], in the "
    with pytest.raises(errors.UserError, match=said):
        prepare(model)
    assert weight_files.newest_checkpoint(path) is None


def test_a_directory_with_a_checkpoint_continues_and_says_so(tmp_path, sources, lines):
    model = tiny_models.make_acoustic_model(str(tmp_path / "am"))
    train = dataclasses.replace(model.config.train, warm_start_from=str(sources / "am"))
    model = dataclasses.replace(model, config=dataclasses.replace(model.config, train=train))
    before = sorted(os.listdir(model.path))
    prepare(model)
    assert lines == [f"{model.path}: has a checkpoint, so --warm_start_from={sources}/am has no effect"]
    assert sorted(os.listdir(model.path)) == before


def test_without_the_flag_nothing_is_done(tmp_path, lines):
    model = new_models.make_new_model(str(tmp_path / "new"))
    prepare(model)
    assert lines == [] and weight_files.newest_checkpoint(model.path) is None


def test_a_model_is_no_source_for_itself(tmp_path):
    path = str(tmp_path / "new")
    for source in (path, f"{path}/model.ckpt-7", f"{path}/../new"):
        model = new_models.make_new_model(path, warm_start_from=source)
        with pytest.raises(
            errors.UserError, match="--warm_start_from is .*, which is --model_dir=.*new itself"
        ):
            prepare(model)


def test_a_source_that_is_missing_is_refused(tmp_path):
    model = new_models.make_new_model(str(tmp_path / "new"), warm_start_from=str(tmp_path / "no"))
    with pytest.raises(
        errors.UserError, match="no: there is no such model directory, checkpoint or Keras .h5"
    ):
        prepare(model)


@pytest.mark.parametrize("source", [None, "am"])
def test_tokens_without_a_keras_file_are_refused(tmp_path, sources, source):
    source = source and str(sources / source)
    model = new_models.make_new_model(
        str(tmp_path / "new"), warm_start_from=source, warm_start_tokens="dict.txt"
    )
    with pytest.raises(errors.UserError, match="--warm_start_tokens is dict.txt, expected it only with"):
        prepare(model)


def test_a_worker_waits_for_the_chief(tmp_path, sources, monkeypatch):
    model = new_models.make_new_model(str(tmp_path / "new"), warm_start_from=str(sources / "am"))
    monkeypatch.setattr(warm_start, "_WAIT_SECONDS", 0.2)
    with pytest.raises(errors.UserError, match="new: the chief has written no checkpoint for 0.2 seconds"):
        prepare(model, is_chief=False)
    monkeypatch.setattr(warm_start.time, "sleep", lambda seconds: prepare(model))
    prepare(model, is_chief=False)
    assert read(model.path)["global_step"] == 0


@pytest.fixture(scope="module")
def keras(tmp_path_factory):
    """Directory with Keras files, fbank, and what the models say of it."""
    path = tmp_path_factory.mktemp("keras")
    fbank = np.random.default_rng(1).normal(size=[1, 16, 16]).astype(np.float32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        np.save(path / "inputs.npy", session.run(acoustic.normalise(tf.constant(fbank), tf.constant([16]))))
    np.save(path / "fbank.npy", fbank)
    (path / "dict.txt").write_text("hao3\t好\nma5\t吗\nni3\t你\nshi4\t是\n", encoding="utf-8")
    run_program("classic_keras.py", path)
    return path


def run_ours(model, fbank):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        outputs = model_builder.build_acoustic(model, tf.constant(fbank), tf.constant([fbank.shape[1]]))
        tf.compat.v1.train.Saver().restore(session, weight_files.newest_checkpoint(model.path))
        return session.run(outputs.ctc_logits)


@pytest.mark.parametrize("name", ["before", "behind"])
def test_a_classic_keras_model_says_the_same_of_the_tokens_it_knows(tmp_path, keras, name, lines):
    model = new_models.make_new_model(
        str(tmp_path / "new"),
        acoustic={"encoder": "cnn"},
        num_mel_bins=16,
        warm_start_from=str(keras / f"{name}.h5"),
        warm_start_tokens=str(keras / "dict.txt"),
    )
    prepare(model)
    ours, theirs = run_ours(model, np.load(keras / "fbank.npy")), np.load(keras / f"{name}.npy")
    assert np.abs(theirs).max() > 0.1
    # <unk> ai4 hao3 ni3 shi4 blank of hao3 ma5 ni3 shi4 blank
    np.testing.assert_allclose(ours[..., 2:], theirs[..., [0, 2, 3, 4]], rtol=1e-3, atol=1e-4)
    assert any(line.split() == ["acoustic/ctc/bias", "4", "2", "1"] for line in lines)
    assert not any("no place" in line or "fit" in line for line in lines)
