"""The only module that imports tf.estimator; works with the TensorFlow releases in tensorflow_release.py.

TensorFlow 2.15 is the last release that includes tf.estimator. For later releases, the same code comes from
the package tensorflow-estimator 2.15. Three modules must be replaced before that package is imported:

- `tensorflow_estimator` itself, whose __init__ imports TPU modules that TensorFlow has removed;
- `...estimator.estimator_export`, which registers public names for TensorFlow's API generator;
- `tensorflow.python.distribute.estimator_training`, once part of TensorFlow (see estimator_training).

Programs must first call `tf.compat.v1.disable_eager_execution()`. With eager execution, a MirroredStrategy
fails if an Estimator without a strategy has already run in the same process.
"""

from __future__ import annotations

import importlib.util
import sys
import types

import tensorflow as tf


class _Undecorated:
    """A decorator that returns the decorated object unchanged."""

    def __init__(self, *names: str, v1: object = None):
        del names, v1

    def __call__(self, exported):
        return exported

    def export_constant(self, module: str, name: str) -> None:
        """Does nothing; the original exports a constant, which cannot be decorated."""


def _replace_modules() -> None:
    from tensorflow.python import distribute

    from estimator_asr.experiment import estimator_training

    package = types.ModuleType("tensorflow_estimator")
    package.__path__ = importlib.util.find_spec("tensorflow_estimator").submodule_search_locations
    export = types.ModuleType("tensorflow_estimator.python.estimator.estimator_export")
    export.estimator_export = _Undecorated
    sys.modules.update({package.__name__: package, export.__name__: export})
    sys.modules["tensorflow.python.distribute.estimator_training"] = estimator_training
    distribute.estimator_training = estimator_training


if not hasattr(tf, "estimator"):
    _replace_modules()

from tensorflow_estimator.python.estimator import estimator, exporter, model_fn, run_config, training
from tensorflow_estimator.python.estimator.export import export_output

CheckpointSaverHook = tf.compat.v1.train.CheckpointSaverHook
CheckpointSaverListener = tf.compat.v1.train.CheckpointSaverListener
Estimator = estimator.EstimatorV2
EstimatorSpec = model_fn.EstimatorSpec
EvalSpec = training.EvalSpec
Exporter = exporter.Exporter
ModeKeys = model_fn.ModeKeys
PredictOutput = export_output.PredictOutput
RunConfig = run_config.RunConfig
SessionRunArgs = tf.compat.v1.train.SessionRunArgs
SessionRunHook = tf.compat.v1.train.SessionRunHook
SummarySaverHook = tf.compat.v1.train.SummarySaverHook
TrainSpec = training.TrainSpec
train_and_evaluate = training.train_and_evaluate
