import dataclasses
import types

import graph_variables
import numpy as np
import pytest
import small_models
import tensorflow as tf

from estimator_asr.experiment import task_spec
from estimator_asr.inputs import buckets, splits
from estimator_asr.monitoring.diagnostics import memory_probe
from tfrecord_builder import errors

SOURCE = splits.Split(task_spec.ACOUSTIC, (), {}, 1.0, 5, "float16", 9, "")


TEXT = dataclasses.replace(SOURCE, spec=task_spec.LANGUAGE, num_bins=None)


def test_the_longest_and_the_largest_batch_are_tried():
    assert memory_probe.choose_shapes(buckets.Bucketing((10, 30, 100), (10, 4, 1), 3)) == [(1, 100), (4, 30)]
    assert memory_probe.choose_shapes(buckets.Bucketing((10, 20), (9, 5), 3)) == [(5, 20)]


def test_a_batch_has_the_shapes_of_the_input():
    values = memory_probe.make_batch(3, 41, SOURCE, None)
    assert values["fbank"].shape == (3, 41, 5) and values["num_frames"].tolist() == [41] * 3
    # 41 frames are 11 after subsampling; half of them, and labels that do not repeat, always fit.
    assert values["token_ids"].tolist() == [[0, 1, 0, 1, 0, 1]] * 3
    assert values["num_tokens"].tolist() == [6] * 3
    assert memory_probe.make_batch(3, 400, SOURCE, None)["token_ids"].shape == (3, 9)
    text = memory_probe.make_batch(2, 7, TEXT, np.array([0, 0, 0.5, 0, 0, 0.5]))
    assert text["token_ids"].shape == text["character_ids"].shape == (2, 7) and "fbank" not in text
    assert set(text["token_ids"].ravel()) == {2, 5}


def test_token_probability_follows_the_number_of_characters_and_that_of_unknown_the_data(tmp_path):
    """Every character is a candidate of <unk>: a batch half full of it took 10 GB."""
    language = small_models.make_without_dropout(tmp_path, "language")  # four tokens of two characters
    np.testing.assert_allclose(memory_probe.token_probabilities(language, 0.0), [0, *[0.25] * 4])
    np.testing.assert_allclose(memory_probe.token_probabilities(language, 0.2), [0.2] * 5)
    acoustic = small_models.make_without_dropout(str(tmp_path / "a"), "acoustic")
    assert memory_probe.token_probabilities(acoustic, 0.0) is None


def test_probabilities_add_up_so_that_tokens_can_be_sampled(tmp_path):
    model = small_models.make_without_dropout(str(tmp_path), "language")
    for size in range(1, 200):
        mask = np.tri(size, dtype=bool)  # token i has i + 1 characters; the first is the unknown one
        readings = types.SimpleNamespace(mask=lambda *_, mask=mask: mask)
        changed = dataclasses.replace(model, readings=readings)
        probabilities = memory_probe.token_probabilities(changed, 0.0)
        sampled = memory_probe.make_batch(2, 7, TEXT, probabilities)["token_ids"]
        assert (sampled > 0).all() or size == 1


def build_hooks(tmp_path, rows, num_replicas, fetch):
    """Builds the hooks of two local replicas; placeholders stand for the iterator, which would fail."""
    model = small_models.make_without_dropout(str(tmp_path), "acoustic")
    for _ in range(2):
        features = {
            key: tf.compat.v1.placeholder(tf.float32, value.shape, key)
            for key, value in memory_probe.make_batch(2, 40, SOURCE, None).items()
        }
        labels = {"token_ids": tf.compat.v1.placeholder(tf.float32, [None, None])}
        yield memory_probe.MemoryProbeHook(
            features,
            labels,
            fetch(features, labels),
            model=model,
            source=SOURCE,
            bucketing=buckets.Bucketing((40,), (rows,), 1),
            num_replicas=num_replicas,
            first_step=0,
        )


def test_inputs_of_all_replicas_are_fed_and_one_line_is_logged(tmp_path, log):
    fetched = []

    def fetch(features, labels):
        fetched.append(tf.reduce_sum(features["num_frames"]) + tf.reduce_sum(labels["token_ids"]))
        return tf.add_n(fetched)

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        *_, hook = build_hooks(tmp_path, 7, 4, fetch)
        hook.begin()
        graph_variables.initialise(session)
        hook.after_create_session(session, None)
        session.run(tf.compat.v1.train.get_global_step().assign(5))
        hook.after_create_session(session, None)  # continues after an evaluation
    assert len(log) == 1
    assert log[0].startswith("largest batch (7 utterances of 40 frames): ")
    assert " s including set-up, peak " in log[0] and log[0].endswith("GiB of memory")


def exhaust():
    raise MemoryError("no room for 1 TiB")


def test_a_batch_that_does_not_fit_in_memory_is_reported_in_one_sentence(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        hook, _ = build_hooks(tmp_path, 2, 1, lambda *_: tf.numpy_function(exhaust, [], tf.float32))
        hook.begin()
        graph_variables.initialise(session)
        said = "a batch of 2 utterances of 40 frames does not fit in memory; set --batch_frames below 80"
        with pytest.raises(errors.UserError, match=said):
            hook.after_create_session(session, None)
