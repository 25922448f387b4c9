import dataclasses

import pytest
import small_models
import small_records
import tensorflow as tf

from estimator_asr.monitoring.diagnostics.doctor import timings
from tfrecord_builder import errors


def test_steps_are_compared_with_the_matrix_product_and_the_input():
    steps = timings.Steps(seconds=5.0, num_steps=10, num_inputs=20000, num_operations=100e9)
    texts = [finding.text for finding in timings.judge_steps(steps, "frames", rate=40e9, input_rate=200000.0)]
    assert texts == [
        "training step, mean of 10: 500 ms for 2,000 frames, 4,000 frames/s; its matrix products reach 50 % "
        "of the rate measured above",
        "the input alone is 50.0 times as fast as training",
    ]


def test_an_input_that_is_too_slow_is_a_warning():
    steps = timings.Steps(seconds=1.0, num_steps=1, num_inputs=1000, num_operations=0)
    levels = [list(timings.judge_steps(steps, "frames", 1e9, rate))[1].level for rate in (3000.0, 2999.0)]
    assert levels == ["ok", "warning"]


def test_without_data_only_the_matrix_product_is_timed(monkeypatch):
    monkeypatch.setattr(timings, "measure_rate", lambda size: 123.4e9)
    (finding,) = timings.check([], None)
    assert finding.text == "float32 matrix product on the CPU: 123 GFLOP/s"


@pytest.mark.long
def test_ten_steps_of_a_model_with_the_users_settings_are_timed(tmp_path, monkeypatch):
    model, _, path = small_models.make_model(tmp_path, "language", with_audio=False)
    monkeypatch.setattr(timings, "INPUT_SECONDS", 0.1)
    monkeypatch.setattr(timings, "measure_rate", lambda size: 10e9)
    texts = [finding.text for finding in timings.check([path], model.path)]
    assert "input alone: " in texts[1] and texts[1].endswith(" tokens/s")
    # An epoch has 24 tokens in three batches, one for each length.
    assert texts[2].startswith("training step, mean of 10: ") and " ms for 8 tokens, " in texts[2]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", "model"]


@pytest.mark.parametrize("with_audio, kind", [(True, "acoustic"), (False, "language")])
def test_without_a_model_the_default_settings_for_the_data_are_used(tmp_path, with_audio, kind):
    info = small_records.make_data(str(tmp_path / "data"), with_audio=with_audio)
    assert timings.choose_config([info], [str(tmp_path / "data")], None).model == kind


def test_data_of_another_vocabulary_are_refused(tmp_path):
    model, info, path = small_models.make_model(tmp_path, "language", with_audio=False)
    other = dataclasses.replace(info, tokens_sha256="0" * 64)
    said = f"sha256 of tokens.txt is 0+, expected .* as in {model.path}"
    with pytest.raises(errors.UserError, match=said):
        timings.choose_config([other], [path], model.path)


def count(build):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        counter = timings.Counter(tf.group(build()))
        return counter.count(session.run(counter.shapes))


def test_a_product_of_m_k_and_k_n_is_2mkn():
    assert count(lambda: tf.matmul(tf.zeros([3, 5]), tf.zeros([5, 7]))) == 2 * 3 * 5 * 7
    assert count(lambda: tf.matmul(tf.zeros([5, 3]), tf.zeros([5, 7]), transpose_a=True)) == 2 * 3 * 5 * 7
    batch = [4, 3, 5], [4, 7, 5]
    assert count(lambda: tf.matmul(*map(tf.zeros, batch), transpose_b=True)) == 2 * 4 * 3 * 5 * 7


def test_a_matrix_product_with_gradients_counts_three_times():
    def build():
        left, right = tf.ones([3, 5]) * 2, tf.ones([5, 7]) * 2
        return tf.gradients(tf.reduce_sum(tf.matmul(left, right) ** 2), [left, right])

    assert count(build) == 3 * 2 * 3 * 5 * 7


def test_convolutions_count_with_the_gradients_that_are_needed():
    def build(num_gradients):
        image, kernel = tf.ones([2, 8, 6, 3]) * 2, tf.ones([3, 3, 3, 4]) * 2
        outputs = tf.nn.conv2d(image, kernel, strides=2, padding="SAME")  # [2, 4, 3, 4]
        return tf.gradients(tf.reduce_sum(outputs**2), [image, kernel])[:num_gradients] + [outputs]

    once = 2 * (2 * 4 * 3 * 4) * (3 * 3 * 3)
    assert [count(lambda n=n: build(n)) for n in (0, 1, 2)] == [once, 2 * once, 3 * once]


def test_a_depthwise_convolution_does_not_sum_over_channels():
    def build():
        image, kernel = tf.ones([2, 8, 1, 3]) * 2, tf.ones([5, 1, 3, 1]) * 2
        outputs = tf.nn.depthwise_conv2d(image, kernel, strides=[1, 1, 1, 1], padding="SAME")
        return tf.gradients(tf.reduce_sum(outputs**2), [image, kernel])

    assert count(build) == 3 * 2 * (2 * 8 * 3) * 5


def test_the_rate_of_matrix_products_is_plausible(monkeypatch):
    monkeypatch.setattr(timings, "PRODUCT_SECONDS", 0.05)
    assert timings.measure_rate(64) > 1e6
