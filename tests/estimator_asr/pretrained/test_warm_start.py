import dataclasses
import itertools
import os
import shutil

import new_models
import numpy as np
import paths
import programs
import pytest
import small_whisper
import tensorflow as tf
import tiny_models

from estimator_asr import show_weights
from estimator_asr.experiment import checkpoints, estimator_api
from estimator_asr.models.tasks import tasks
from estimator_asr.pretrained import encoder_weights, transfer, warm_start
from estimator_asr.training import model_fn
from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary

CHARACTERS = vocabulary.Vocabulary(["<unk>", "好", "你", "爱", "是", "郝"])  # 爱 is new


@pytest.fixture(scope="module")
def am(tmp_path_factory):
    """Returns the path of an acoustic model with the tokens <unk> hao3 ma5 ni3 shi4 tian1."""
    return tiny_models.make_acoustic_model(str(tmp_path_factory.mktemp("sources") / "am")).path


@pytest.fixture(scope="module")
def lm(tmp_path_factory):
    """Returns the path of a language model with the characters <unk> 你 吗 好 妈 字 是 气 郝."""
    return tiny_models.make_language_model(str(tmp_path_factory.mktemp("sources") / "lm")).path


@pytest.fixture
def lines(monkeypatch):
    said = []
    monkeypatch.setattr(warm_start.logging, "info", lambda text, *values: said.append(text % values))
    return said


def read_batch(model):
    return tf.compat.v1.data.make_one_shot_iterator(new_models.build_input_fn(model)()).get_next()


def build_model(model):
    """Builds the model without losses and optimizer."""
    features, _ = read_batch(model)
    tasks.for_model(model).build(features, features)


def build_training_step(model):
    features, labels = read_batch(model)
    model_fn.build_model_fn(model, new_models.plan())(features, labels, estimator_api.ModeKeys.TRAIN)


def make_new(tmp_path, kind, **settings):
    return new_models.make_new_model(str(tmp_path / "new"), kind, **settings)


def with_source(model, source):
    train = dataclasses.replace(model.config.train, warm_start_from=source)
    return dataclasses.replace(model, config=dataclasses.replace(model.config, train=train))


def prepare(model, build=build_model, is_chief=True):
    warm_start.prepare(model, lambda: build(model), is_chief, lambda: None)


def read(path):
    return show_weights.read(path)[1]


@pytest.mark.long
def test_an_acoustic_model_gets_weights_from_another_vocabulary(tmp_path, am, lines):
    model = make_new(tmp_path, "acoustic", warm_start_from=am)
    prepare(model)
    old, new = read(am), read(model.path)
    assert new["global_step"] == 0
    # Neither model has the classifier that --local_ctc_weight adds.
    assert {name for name in transfer.class_names(()) if "local_ctc" not in name} <= set(new)
    # New rows: <unk> ai4 hao3 ni3 shi4 blank. Old rows: <unk> hao3 ma5 ni3 shi4 tian1 blank.
    for head in ("ctc", "decoder"):
        vectors, bias = f"acoustic/{head}/class_vectors", f"acoustic/{head}/bias"
        np.testing.assert_array_equal(new[vectors][[0, 2, 3, 4, 5]], old[vectors][[0, 1, 3, 4, 6]])
        assert 0 < np.abs(new[vectors][1]).max() < 0.2  # standard deviation 0.02
        np.testing.assert_array_equal(new[bias][0, [0, 2, 3, 4, 5]], old[bias][0, [0, 1, 3, 4, 6]])
        assert new[bias][0, 1] == 0
        assert any(line.split() == [vectors, "5", "1", "2"] for line in lines)
    for name in set(old) & set(new) - {"global_step", *transfer.class_names(())}:
        np.testing.assert_array_equal(new[name], old[name])
    assert lines[0] == f"warm start from {am}/model.ckpt-7"


@pytest.mark.long
def test_a_language_model_gets_tokens_characters_and_readings_from_another(tmp_path, lm, lines):
    model = make_new(tmp_path, "language", characters=CHARACTERS, warm_start_from=lm)
    prepare(model)
    old, new = read(lm), read(model.path)
    name = "language/tokens"
    np.testing.assert_array_equal(new[name][[0, 2, 3, 4]], old[name][[0, 1, 3, 4]])
    name = "language/characters"
    np.testing.assert_array_equal(new[name][[0, 1, 2, 4, 5]], old[name][[0, 3, 1, 6, 8]])
    # First the pairs of <unk> with every character; then ai4 <unk>, hao3 好郝, ni3 你, shi4 是.
    bias, old_bias = new["language/reading_bias"], old["language/reading_bias"]
    np.testing.assert_array_equal(bias[:6], [*old_bias[[0, 3, 1]], 0, *old_bias[[6, 8]]])
    np.testing.assert_array_equal(bias[6:9], [0, *old_bias[9:11]])
    assert not np.any(new["language/ngrams"])
    assert any(line.startswith("  language/ngrams is initialised") for line in lines)
    name = "language/ngram_projection/kernel"
    np.testing.assert_array_equal(new[name], old[name])


@pytest.fixture(scope="module")
def started(tmp_path_factory, lm):
    """Returns a new model whose model.ckpt-0 has all variables that training restores."""
    model = make_new(tmp_path_factory.mktemp("started"), "language", warm_start_from=lm)
    prepare(model, build_training_step)
    return model


@pytest.mark.long
def test_the_state_of_the_optimizer_is_initialised(started):
    start = read(started.path)
    assert "language/ngrams/Adam" in start
    assert not any(np.any(start[name]) for name in start if name.endswith(("/Adam", "/Adam_1")))
    checkpoints.require_optimizer(checkpoints.latest(started.path), "adam", "float32")


@pytest.mark.slow
def test_two_replicas_continue_from_the_new_checkpoint(started):
    done = programs.run(paths.script("replica_programs.py"), "one_step", started.path)
    assert done.returncode == 0, done.stderr[-3000:]
    start, end = (read(f"{started.path}/model.ckpt-{step}") for step in (0, 1))
    assert end["global_step"] == 1 and set(start) == set(end)
    for name in start:
        if name.startswith("language/") and "Adam" not in name:  # the learning rate is 1e-12
            np.testing.assert_allclose(end[name], start[name], atol=1e-6, err_msg=name)


def test_layers_that_the_source_lacks_are_initialised(tmp_path, lm, lines):
    model = make_new(tmp_path, "language", language={"language_layers": 2}, warm_start_from=lm)
    prepare(model)
    name = "language/layer_{}/self_attention/output/kernel"
    new = read(model.path)
    np.testing.assert_array_equal(new[name.format(0)], read(lm)[name.format(0)])
    assert np.any(new[name.format(1)])
    assert any("initialised: " in line and "language/layer_1/self_attention (4)" in line for line in lines)


def test_another_width_is_refused_and_nothing_is_written(tmp_path, lm):
    model = make_new(tmp_path, "language", language={"language_units": 32}, warm_start_from=lm)
    said = r"ckpt-7: only \d+ of \d+ variables fit the model in .*new.* \[9, 32\], but \[9, 16\] in the so"
    with pytest.raises(errors.UserError, match=said):
        prepare(model)
    assert checkpoints.find_latest(model.path) is None


@pytest.mark.long
def test_update_counts_of_batch_norm_start_at_zero(tmp_path, am):
    model = make_new(tmp_path, "acoustic", warm_start_from=am)
    source = warm_start.open_source(model)
    scope = "acoustic/encoder/batch_norm_0"
    source.values[f"{scope}/num_updates"] = np.float32(500)
    warm_start.write(model, source, lambda: build_model(model), lambda: None)
    new = read(model.path)
    assert new[f"{scope}/num_updates"] == 0
    np.testing.assert_array_equal(new[f"{scope}/moving_mean"], source.values[f"{scope}/moving_mean"])


def test_with_a_checkpoint_the_warm_start_has_no_effect_which_is_logged(tmp_path, am, lm, lines):
    model = with_source(tiny_models.make_language_model(str(tmp_path / "lm")), lm)
    before = sorted(os.listdir(model.path))
    prepare(model)
    assert lines == [f"{model.path} has a checkpoint, so --warm_start_from={lm} has no effect"]
    assert sorted(os.listdir(model.path)) == before


def test_encoded_data_inside_the_model_directory_can_be_the_source(tmp_path, lines):
    """Trained blocks start from the encoder in the data directory; a later run does not need the encoder."""
    model = tiny_models.make_pretrained_model(str(tmp_path / "am"), "whisper")
    small_whisper.write(tmp_path / "am" / "encoded")
    prepare(with_source(model, str(tmp_path / "am" / "encoded")))
    assert lines == []


@pytest.mark.parametrize("source", ["new", "new/model.ckpt-7", "new/../new"])
def test_a_model_directory_is_refused_as_its_own_source(tmp_path, source):
    model = make_new(tmp_path, "language", warm_start_from=str(tmp_path / source))
    with pytest.raises(errors.UserError, match="--warm_start_from=.* is the same .* as --model_dir=.*new;"):
        prepare(model)


def test_a_worker_waits_for_the_chief(tmp_path, lm, monkeypatch):
    model = make_new(tmp_path, "language", warm_start_from=lm)
    monkeypatch.setattr(warm_start, "_WAIT_SECONDS", 0.2)
    monkeypatch.setattr(warm_start, "_POLL_SECONDS", 0.02)
    with pytest.raises(errors.UserError, match="new: the chief did not write a checkpoint .* within 0.2 s"):
        prepare(model, is_chief=False)
    monkeypatch.setattr(warm_start.time, "sleep", lambda seconds: prepare(model))
    prepare(model, is_chief=False)
    assert read(model.path)["global_step"] == 0


@pytest.fixture(scope="module")
def sources(tmp_path_factory, am, lm):
    path = tmp_path_factory.mktemp("sources")
    for source in (am, lm):
        shutil.copytree(source, path / os.path.basename(source))
    shutil.copytree(path / "am", path / "changed")
    (path / "changed" / "tokens.txt").write_text("<unk>\n", encoding="utf-8")
    new_models.make_new_model(str(path / "other"))
    (path / "alone").mkdir()
    for file, folder in itertools.product((path / "am").glob("model.ckpt-7.*"), ("alone", "other")):
        shutil.copy(file, path / folder)
    (path / "a.h5").write_bytes(b"\x89HDF")
    return path


def open_source(tmp_path, path, kind="acoustic", **settings):
    settings = {"warm_start_from": str(path), **settings}
    return warm_start.open_source(new_models.make_new_model(str(tmp_path / "new"), kind, **settings))


@pytest.mark.long
@pytest.mark.parametrize("path", ["am", "am/model.ckpt-7", "am/model.ckpt-7.index"])
def test_a_directory_and_its_checkpoint_are_sources_with_row_names(tmp_path, sources, path):
    source = open_source(tmp_path, sources / path)
    assert source.path == str(sources / "am" / "model.ckpt-7") and source.remarks == ()
    assert source.values["acoustic/ctc/bias"].shape == (1, 7)
    assert source.names["acoustic/ctc/bias"].names[:-1] == tiny_models.TOKENS.tokens


def test_a_checkpoint_in_a_folder_of_a_model_directory_belongs_to_it(tmp_path, sources):
    shutil.copytree(sources / "am", tmp_path / "am")
    os.makedirs(tmp_path / "am" / "best")
    for file in (tmp_path / "am").glob("model.ckpt-7.*"):
        shutil.move(file, tmp_path / "am" / "best")
    assert "acoustic/ctc/bias" in open_source(tmp_path, tmp_path / "am" / "best" / "model.ckpt-7").values


def test_hashed_ngrams_are_copied_only_with_the_same_tokens(tmp_path, sources):
    same = open_source(tmp_path / "same", sources / "lm", "language", tokens=tiny_models.TOKENS)
    assert "language/ngrams" in same.values and np.any(same.values["language/tokens"])
    source = open_source(tmp_path, sources / "lm", "language")
    assert not any(name.startswith("language/ngrams/") for name in source.values)  # optimizer slots
    assert "language/ngrams" not in source.values and "language/ngram_projection/kernel" in source.values
    assert source.remarks == (
        "language/ngrams is initialised, because its rows are for n-grams of other tokens",
    )


@pytest.mark.long
def test_a_pretrained_encoder_other_than_the_models_is_refused(tmp_path):
    model = tiny_models.make_pretrained_model(str(tmp_path / "am"), "whisper")
    same = with_source(model, small_whisper.write(tmp_path / "same"))
    values = warm_start.open_source(same).values
    np.testing.assert_array_equal(
        values["acoustic/encoder/pretrained/convolution_1/bias"],
        np.float32(small_whisper.make_tensors()["conv2.bias"]),
    )
    other = small_whisper.write(tmp_path / "other", small_whisper.make_tensors(1))
    got, want = (encoder_weights.read(path)[0].sha256[:12] for path in (other, tmp_path / "same"))
    said = f"sha256 {got}, but the model and the data use whisper with {want}; leave out --warm_start_from"
    with pytest.raises(errors.UserError, match=f"^{other}: the encoder is whisper with {said}$"):
        warm_start.open_source(with_source(model, other))


@pytest.mark.long
def test_blocks_that_were_frozen_in_the_source_have_the_weights_of_its_encoder(tmp_path):
    model = tiny_models.make_pretrained_model(str(tmp_path / "am"), "whisper")
    acoustic = dataclasses.replace(model.config.acoustic, trainable_blocks=2)
    new = dataclasses.replace(model, config=dataclasses.replace(model.config, acoustic=acoustic))
    values = warm_start.open_source(with_source(new, model.path)).values
    saved = checkpoints.iterate(checkpoints.latest(model.path))
    np.testing.assert_array_equal(values["acoustic/ctc/bias"], dict(saved)["acoustic/ctc/bias"])
    for block in (2, 3):
        np.testing.assert_array_equal(
            values[f"acoustic/encoder/pretrained/block_{block}/self_attention/output/bias"],
            np.float32(small_whisper.make_tensors()[f"layers.{block - 1}.self_attn.out_proj.bias"]),
        )


def test_another_frontend_with_as_many_bins_causes_only_a_remark(tmp_path, sources):
    remarks = open_source(tmp_path, sources / "am", hop_ms=20.0).remarks
    assert remarks == ("frontend differs: hop_ms is 20.0, but 10.0 in the source",)


def test_non_finite_weights_are_refused(tmp_path, sources, monkeypatch):
    values = {"acoustic/a": np.ones(2), "acoustic/b": np.array([1, np.nan]), "acoustic/c": np.array([np.inf])}
    source = transfer.WeightSource("AM/model.ckpt-5", values, {}, ())
    monkeypatch.setattr(warm_start, "_open_checkpoint", lambda model, path: source)
    said = "ckpt-5: 2 of 3 variables contain NaN or Inf \\(first: acoustic/b\\); choose an earlier"
    with pytest.raises(errors.UserError, match=said):
        open_source(tmp_path, sources / "am")


@pytest.mark.parametrize(
    "path, settings, said",
    [
        ("lm", {}, "lm: model type is language, expected acoustic; choose"),
        (
            "am",
            {"num_mel_bins": 12},
            "am: the frontend has 20 mel bins, expected 12 as in .*new; build the data with that frontend",
        ),
        ("alone/model.ckpt-7", {}, "model.ckpt-7: neither the checkpoint's directory nor a directory above"),
        ("changed", {}, "tokens.txt: sha256 is"),
        ("other/model.ckpt-7", {}, "model.ckpt-7: the output layer has 7 classes instead of 6"),
        ("a.h5", {}, "a.h5 is not a TensorFlow checkpoint; pass a model"),
        ("no", {}, "no does not exist; check the path"),
    ],
)
def test_sources_that_do_not_fit_are_refused(tmp_path, sources, path, settings, said):
    with pytest.raises(errors.UserError, match=said):
        open_source(tmp_path, sources / path, **settings)


@pytest.mark.parametrize("depth, is_found", [(0, True), (4, True), (5, False)])
def test_a_model_directory_is_at_most_four_folders_above_a_checkpoint(tmp_path, depth, is_found):
    (tmp_path / "config.json").touch()
    folder = tmp_path.joinpath(*"abcde"[:depth])
    folder.mkdir(parents=True, exist_ok=True)
    assert warm_start.find_root(f"{folder}/model.ckpt-3") == (str(tmp_path) if is_found else None)
