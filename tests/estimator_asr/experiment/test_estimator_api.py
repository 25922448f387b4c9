import pytest
import tensorflow as tf

from estimator_asr.experiment import estimator_api

NAMES = [name for name in vars(estimator_api) if name[0].isupper()] + ["train_and_evaluate"]


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="this TensorFlow has no tf.estimator")
@pytest.mark.parametrize("name", NAMES)
def test_estimator_api_exports_the_names_of_tf_estimator(name):
    expected = getattr(tf.estimator, name, None) or getattr(tf.estimator.export, name)
    assert getattr(estimator_api, name) is expected


def test_an_estimator_trains_evaluates_and_predicts(tmp_path):
    """With the loss (w - 3)^2 and a learning rate of 0.5, one step reaches the optimum, w = 3."""

    def model_fn(features, labels, mode):
        weight = tf.compat.v1.get_variable("w", shape=(), initializer=tf.compat.v1.zeros_initializer())
        outputs = {"w": weight + features}
        if labels is None:
            return estimator_api.EstimatorSpec(mode, outputs)
        loss = tf.square(weight - tf.reduce_mean(labels))
        step = tf.compat.v1.train.get_or_create_global_step()
        train_op = tf.compat.v1.train.GradientDescentOptimizer(0.5).minimize(loss, step)
        return estimator_api.EstimatorSpec(mode, outputs, loss, train_op)

    def input_fn():
        return tf.data.Dataset.from_tensors((tf.zeros(1), tf.constant([3.0])))

    config = estimator_api.RunConfig(model_dir=str(tmp_path))
    estimator = estimator_api.Estimator(model_fn, config=config)
    estimator.train(input_fn, max_steps=1)
    assert estimator.evaluate(input_fn)["loss"] == 0.0
    assert [row["w"] for row in estimator.predict(input_fn)] == [3.0]
