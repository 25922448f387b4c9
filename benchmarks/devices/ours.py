"""Our side of benchmarks/devices: an export with random weights in all formats, and its recognisers."""

import dataclasses
import json
import os
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from benchmarks.train_step import ours as train_step_ours
from estimator_asr.experiment import checkpoints
from estimator_asr.experiment import config as config_lib
from estimator_asr.exporting.formats import bundle, parts
from estimator_asr.exporting.saved_model import saved_model_writer, trained_model
from estimator_asr.models.tasks import tasks
from estimator_asr_runtime import model as runtime_model
from estimator_asr_runtime import model_json
from estimator_asr_runtime import recogniser as runtime
from tfrecord_builder.data import dataset_info

EXACT, SMALL = WEIGHTS = ("float32", "int8")
FORMATS = tuple(bundle.CONVERTERS)
_NUM_TOKENS = 1675  # vocabulary size of three small corpora, see docs/experiments/from-scratch.md


def make_model(config: config_lib.AcousticConfig, path: str) -> trained_model.TrainedModel:
    """Writes a model directory with initial weights, and opens it."""
    model = train_step_ours.make_model(config, _NUM_TOKENS, path)
    settings = dataclasses.replace(model.config, token_type="character")  # characters are joined into texts
    os.makedirs(path)
    settings.save(path)
    model.tokens.save(os.path.join(path, dataset_info.TOKENS_FILE))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        tf.compat.v1.train.create_global_step()
        task = tasks.for_model(dataclasses.replace(model, config=settings))
        task.recognise(task.placeholders())
        variables = tf.compat.v1.global_variables()
        session.run(tf.compat.v1.global_variables_initializer())
        values = {each.op.name: value for each, value in zip(variables, session.run(variables))}
    checkpoints.save(values, checkpoints.prefix_of(path, 0))
    return trained_model.open_trained_model(path)


def export(trained: trained_model.TrainedModel, directory: str) -> tuple[str, dict[str, str]]:
    """Writes a version with float32 formats, and the int8 formats beside the version.

    Returns:
        Path of the version, and the paths of the formats, keyed as in find_formats.
    """
    for name in bundle.CONVERTERS:
        bundle.check_installed(name)
    built, beside = parts.build(trained, None), os.path.join(directory, SMALL)

    def complete(version_dir, info):
        for weights, root in ((EXACT, version_dir), (SMALL, beside)):
            for name in FORMATS:
                bundle.write(os.path.join(root, name), name, weights, built, trained, None, None, info)
        return info

    version_dir = saved_model_writer.write(trained, None, os.path.join(directory, "export"), complete)
    return version_dir, find_formats([version_dir, beside])


def find_formats(directories: Sequence[str]) -> dict[str, str]:
    """Returns {format and weights: path of the format}, with keys such as "onnx int8"."""
    found = {}
    for path in (os.path.join(directory, name) for directory in directories for name in FORMATS):
        if os.path.exists(os.path.join(path, model_json.FILE)):
            with open(os.path.join(path, model_json.FILE), encoding="utf-8") as file:
                values = json.load(file)
            found[f"{values['format']} {values['weights']}"] = path
    return found


def find_mb(directory: str) -> float:
    """Returns the size of a directory's files in MB; for a version, without its formats."""
    paths = (os.path.join(root, name) for root, _, names in os.walk(directory) for name in names)
    others = tuple(os.path.join(directory, name, "") for name in FORMATS)
    return sum(os.path.getsize(path) for path in paths if not path.startswith(others)) / 1e6


class Format:
    """A format that runs with one thread."""

    def __init__(self, path: str):
        self._model = runtime_model.load(path, num_threads=1)
        self._recogniser = runtime.Recogniser(self._model)

    def recognise(self, waveform: np.ndarray) -> str:
        """Returns the transcript of float32 [num_samples]."""
        return self._recogniser.recognise(waveform)["transcript"]

    def run_graph(self, waveform: np.ndarray) -> np.ndarray:
        """Returns the log probabilities of the acoustic graph alone."""
        return self._model.acoustic.run({"waveform": waveform[None]})["log_probs"]
