from __future__ import annotations

import cnn_weights
import h5py
import new_models
import pytest

from estimator_asr.checkpointing.pretrained import keras_source
from tfrecord_builder import errors

WEIGHTS = cnn_weights.make_weights(6)  # 5 classes: 4 tokens and the blank


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("keras") / "a.h5")
    layers = dict.fromkeys(name.split("/")[0] for name in WEIGHTS)
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = list(layers)
        for layer in layers:
            names = [name for name in WEIGHTS if name.startswith(f"{layer}/")]
            file.create_group(layer).attrs["weight_names"] = names
            for name in names:
                file[layer][name] = WEIGHTS[name]
    return path


def open_keras(tmp_path, file, tokens="a1\nb1\nc1\nd1\n", encoding="utf-8", kind="acoustic", encoder="cnn"):
    model = new_models.make_new_model(str(tmp_path / "new"), kind, acoustic={"encoder": encoder})
    path = tmp_path / "dict.txt"
    path.write_bytes(tokens.encode(encoding))
    return keras_source.open_keras(model, file, str(path))


@pytest.mark.parametrize(
    "tokens", ["a1\nb1\nc1\nd1\n", "a1\t阿啊\nb1\t\nc1\td\nd1\tx", "\ufeffa1\r\nb1\r\n\r\nc1\r\nd1\r\n"]
)
def test_tokens_are_the_first_column_of_the_lines(tmp_path, file, tokens):
    source = open_keras(tmp_path, file, tokens)
    assert source.names["acoustic/ctc/bias"].names[:-1] == ("a1", "b1", "c1", "d1")
    assert source.path == file and source.values["acoustic/ctc/bias"].shape == (1, 5)


@pytest.mark.parametrize("tokens, count", [("a1\nb1\nc1\n", 3), ("a1\nb1\nc1\nd1\n_\n", 5)])
def test_another_number_of_tokens_is_refused(tmp_path, file, tokens, count):
    said = (
        f"dict.txt: has {count} tokens, expected 4, as the output of .*a.h5 has 5 classes and the last is the"
    )
    with pytest.raises(errors.UserError, match=said):
        open_keras(tmp_path, file, tokens)


def test_tokens_that_are_not_utf8_are_refused(tmp_path, file):
    with pytest.raises(errors.UserError, match="dict.txt: byte 3 is not UTF-8, expected tokens; convert"):
        open_keras(tmp_path, file, "a1\t阿\nb1\nc1\nd1\n", encoding="gbk")


def test_tokens_that_are_missing_are_refused(tmp_path, file):
    model = new_models.make_new_model(str(tmp_path / "new"), acoustic={"encoder": "cnn"})
    with pytest.raises(
        errors.UserError, match="train: --warm_start_tokens is missing, expected it with .*a.h5; give"
    ):
        keras_source.open_keras(model, file, None)
    with pytest.raises(errors.UserError, match="no.txt: tokens cannot be read, No such file"):
        keras_source.open_keras(model, file, str(tmp_path / "no.txt"))


@pytest.mark.parametrize(
    "kind, encoder, said",
    [("language", "cnn", "language"), ("acoustic", "conformer", "acoustic with --encoder=conformer")],
)
def test_a_model_of_other_layers_is_refused(tmp_path, file, kind, encoder, said):
    with pytest.raises(
        errors.UserError, match=f"a.h5: is a Keras model and the model to train is {said}, expected"
    ):
        open_keras(tmp_path, file, kind=kind, encoder=encoder)


def test_a_file_of_another_kind_is_no_keras_model(tmp_path):
    path = tmp_path / "config.json"
    path.write_text("{}")
    with pytest.raises(
        errors.UserError, match="config.json: cannot be read as HDF5 .*, expected a whole .h5"
    ):
        open_keras(tmp_path, str(path), encoder="conformer")
