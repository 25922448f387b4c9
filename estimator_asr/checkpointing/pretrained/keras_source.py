"""Weights to start with from a Keras .h5 file of the classic cascade."""

from __future__ import annotations

from typing import Optional

from estimator_asr import model_directory
from estimator_asr.checkpointing.pretrained import classic_cnn, token_rows, weight_files, weight_sources
from tfrecord_builder import errors


def open_keras(
    model: model_directory.ModelDirectory, path: str, tokens_path: Optional[str]
) -> weight_sources.WeightSource:
    """Reads a Keras file, and the tokens of its output.

    Raises:
        errors.UserError: the model is not acoustic with --encoder=cnn, or a file is missing, damaged or of
            another kind or size.
    """
    weights = weight_files.read_keras(path)
    spec, encoder = model.config.spec, model.config.acoustic.encoder
    if not spec.reads_audio or encoder != "cnn":
        kind = f"{spec.name} with --encoder={encoder}" if spec.reads_audio else spec.name
        raise errors.UserError(
            f"{path}: is a Keras model and the model to train is {kind}, expected --model=acoustic with "
            "--encoder=cnn, whose layers it has; change them, or give a model directory"
        )
    if not tokens_path:
        raise errors.UserError(
            f"train: --warm_start_tokens is missing, expected it with --warm_start_from={path}; give the "
            "file that lists the tokens of its output, one a line, without the blank"
        )
    translation = classic_cnn.translate(weights, path)
    tokens = _read_tokens(tokens_path, translation.num_classes - 1, path)
    return weight_sources.WeightSource(
        path, translation.values, token_rows.class_names(tokens), translation.remarks
    )


def _read_tokens(path, count, weights_path):
    """First column of each line that is not empty; the classic dict.txt has characters behind a tab."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            tokens = tuple(line.split("\t")[0].strip() for line in file if line.strip())
    except OSError as error:
        raise errors.UserError(
            f"{path}: tokens cannot be read, {error.strerror}; give the file with --warm_start_tokens"
        ) from error
    except UnicodeDecodeError as error:
        raise errors.UserError(
            f"{path}: byte {error.start} is not UTF-8, expected tokens; convert it"
        ) from error
    if len(tokens) != count:
        raise errors.UserError(
            f"{path}: has {len(tokens)} tokens, expected {count}, as the output of {weights_path} has "
            f"{count + 1} classes and the last is the blank; give the file that it was trained with"
        )
    return tokens
