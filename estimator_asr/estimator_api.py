"""The one module through which tf.estimator is reached, so that a later TensorFlow is one change.

Programs must call `tf.compat.v1.disable_eager_execution()` first: with eager execution on, a MirroredStrategy
fails after a plain Estimator ran in the same process.
"""

from __future__ import annotations

import tensorflow as tf

CheckpointSaverHook = tf.estimator.CheckpointSaverHook
CheckpointSaverListener = tf.estimator.CheckpointSaverListener
Estimator = tf.estimator.Estimator
EstimatorSpec = tf.estimator.EstimatorSpec
EvalSpec = tf.estimator.EvalSpec
Exporter = tf.estimator.Exporter
ModeKeys = tf.estimator.ModeKeys
PredictOutput = tf.estimator.export.PredictOutput
RunConfig = tf.estimator.RunConfig
ServingInputReceiver = tf.estimator.export.ServingInputReceiver
SessionRunArgs = tf.estimator.SessionRunArgs
SessionRunHook = tf.estimator.SessionRunHook
SummarySaverHook = tf.estimator.SummarySaverHook
TrainSpec = tf.estimator.TrainSpec
train_and_evaluate = tf.estimator.train_and_evaluate
