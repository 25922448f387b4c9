"""A program for test_optimization, test_normalisation and test_nan_recorder: trains on two CPU replicas with
unequal batches, and prints the results as JSON.

It runs in its own process, because a process creates its CPU devices only once.
"""

import json
import math
import os

import replica_programs
import small_records
import tensorflow as tf

from estimator_asr.experiment import estimator_api, training_config
from estimator_asr.models import normalisation
from estimator_asr.models.tasks import metrics
from estimator_asr.monitoring.diagnostics import nan_files, nan_recorder
from estimator_asr.training import model_fn as model_fn_lib
from estimator_asr.training.distributed import strategies
from estimator_asr.training.optimizer import optimization, skippable
from tfrecord_builder import errors
from tfrecord_builder.data import schema

MOMENTUM = training_config.OptimizerConfig(optimizer="momentum")


def input_fn():
    data = {"direction": [[1.0, 0.0], [0.0, 1.0]], "num_labels": [2.0, 6.0], "rows": [[0, 1], [1, 1]]}
    return tf.data.Dataset.from_tensor_slices((data, [0, 0])).batch(1).repeat()


class Fetch(estimator_api.SessionRunHook):
    def __init__(self, tensors, values):
        self.tensors, self.values = tensors, values

    def before_run(self, run_context):
        return estimator_api.SessionRunArgs(self.tensors)

    def after_run(self, run_context, run_values):
        self.values.update({key: float(value) for key, value in run_values.results.items()})


def build_model_fn(get_loss, clip_norm, fetched):
    def model_fn(features, labels, mode):
        num_labels = features["num_labels"][0]
        losses = metrics.Losses(get_loss(features, num_labels), {}, num_labels)
        loss = losses.to_minimise()
        optimizer = skippable.Momentum(tf.constant(1.0), 0.0)
        step = tf.compat.v1.train.get_or_create_global_step()
        update = optimization.Minimizer(optimizer, clip_norm, step).minimize(loss)
        hooks = [Fetch({"loss": loss, "gradient_norm": update.gradient_norm}, fetched)]
        return estimator_api.EstimatorSpec(mode, loss=loss, train_op=update.train_op, training_hooks=hooks)

    return model_fn


def dense_loss(features, num_labels):
    weights = tf.compat.v1.get_variable("scope/w", initializer=[0.0, 0.0])
    return num_labels * (1.0 + tf.reduce_sum(weights * features["direction"][0]))


def sparse_loss(features, num_labels):
    table = tf.compat.v1.get_variable("scope/w", initializer=[0.0, 0.0, 0.0])
    rows = tf.gather(table, tf.unique(features["rows"][0])[0])
    return num_labels * (1.0 + tf.reduce_sum(rows))


def run(get_loss, clip_norm):
    fetched = {}
    model_fn = build_model_fn(get_loss, clip_norm, fetched)
    estimator = estimator_api.Estimator(model_fn, config=replica_programs.run_config(2))
    estimator.train(input_fn, steps=1)
    return {"weights": estimator.get_variable_value("scope/w").tolist(), **fetched}


def input_with_bad_batches():
    """Returns batches of one value; in steps 1 and 3, the second replica's value is NaN or Inf."""
    values = [[1.0], [2.0], [3.0], [math.nan], [5.0], [6.0], [7.0], [math.inf]]
    features = {"value": values, "seed": [[3, step // 2] for step in range(8)]}
    return tf.data.Dataset.from_tensor_slices((features, values)).repeat()


def build_recording_model_fn(max_skipped):
    records = [schema.make_example(record) for record in small_records.make_records("train", 2)]

    def model_fn(features, labels, mode, config):
        weight = tf.compat.v1.get_variable("w", initializer=1.0)
        loss = weight * features["value"][0]
        optimizer = optimization.build_optimizer(MOMENTUM, tf.constant(0.1))
        step = tf.compat.v1.train.get_or_create_global_step()
        update = optimization.Minimizer(optimizer, 0.0, step).minimize(loss)
        tensors = {
            "is_finite": update.is_finite,
            "number": update.number,
            "position": features["seed"],
            "loss": update.loss,
            "gradient_norm": update.gradient_norm,
            "learning_rate": tf.constant(0.1),
        }
        arguments = (config.model_dir, "{}", lambda position: records, "float16", max_skipped)
        hooks = [nan_recorder.NanRecorderHook(tensors, *arguments)]
        shown = model_fn_lib.shown_loss(loss)
        return estimator_api.EstimatorSpec(mode, loss=shown, train_op=update.train_op, training_hooks=hooks)

    return model_fn


def record(max_skipped):
    """Returns the weight after four steps, the files that were written, and the error message or None."""
    settings = replica_programs.run_config(2)
    estimator = estimator_api.Estimator(build_recording_model_fn(max_skipped), config=settings)
    try:
        estimator.train(input_with_bad_batches, steps=4)
        said = None
    except errors.UserError as error:
        said = str(error)
    path = nan_files.directory(settings.model_dir)
    before = tf.train.load_checkpoint(os.path.join(path, "step-1", nan_files.CHECKPOINT))
    return {
        "weight": float(estimator.get_variable_value("w")),
        "moment": float(estimator.get_variable_value("w/Momentum")),
        "written": sorted(os.listdir(path)),
        "said": said,
        "before": [float(before.get_tensor(name)) for name in ("w", "w/Momentum")],
    }


def half_moments(kind):
    """Returns moments and gradients on two replicas; the second replica has only padding, which is NaN."""
    settings = training_config.TrainConfig(num_cpu_replicas=2)

    def of_replica():
        context = tf.distribute.get_replica_context()
        is_first = tf.get_static_value(context.replica_id_in_sync_group) == 0
        rows = [[300.0, 0.5], [-300.0, 1.5]] if is_first else [[math.nan] * 2] * 2
        inputs, mask = tf.cast([rows], kind), tf.fill([1, 2], float(is_first))
        moments = normalisation.moments_over_replicas(inputs, mask, tf.zeros([2]))
        return tf.stack(moments), tf.cast(tf.gradients(moments[1], inputs)[0], tf.float32)

    with tf.Graph().as_default():
        strategy = strategies.build_strategy(settings)
        values = strategy.extended.call_for_each_replica(of_replica)
        values = [strategy.experimental_local_results(value) for value in values]
        with tf.compat.v1.Session(config=strategies.session_config(settings)) as session:
            moments, gradients = session.run(values)
    results = {"moments": moments, "gradients": gradients}
    return {name: [each.tolist() for each in values] for name, values in results.items()}


def main():
    tf.compat.v1.disable_eager_execution()
    runs = {"dense": (dense_loss, 0.5), "sparse": (sparse_loss, 0.0), "clipped sparse": (sparse_loss, 0.5)}
    results = {name: run(*settings) for name, settings in runs.items()}
    halves = {kind.name: half_moments(kind) for kind in (tf.float16, tf.bfloat16)}
    print(json.dumps({**results, **halves, "recorded": [record(2), record(1)]}))


if __name__ == "__main__":
    main()
