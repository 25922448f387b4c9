import dataclasses
import types

import graph_variables
import numpy as np
import pytest
import small_models
import tensorflow as tf

from estimator_asr.experiment import task_spec
from estimator_asr.inputs import buckets, splits
from estimator_asr.monitoring.diagnostics import memory_probe, trial
from tfrecord_builder import errors

SOURCE = splits.Split(task_spec.ACOUSTIC, (), {}, 1.0, 5, "float16", 9, "")
TEXT = dataclasses.replace(SOURCE, spec=task_spec.LANGUAGE, num_bins=None)


def test_the_longest_and_the_largest_batch_are_tried():
    assert memory_probe.choose_shapes(buckets.Bucketing((10, 30, 100), (10, 4, 1), 3)) == [(1, 100), (4, 30)]
    assert memory_probe.choose_shapes(buckets.Bucketing((10, 20), (9, 5), 3)) == [(5, 20)]


def test_a_batch_has_the_shapes_of_the_input():
    values = memory_probe.make_batch(3, 41, SOURCE, None)
    assert values["fbank"].shape == (3, 41, 5) and values["num_frames"].tolist() == [41] * 3
    # 41 frames become 11 after subsampling, so 6 labels without equal neighbours always fit.
    assert values["token_ids"].tolist() == [[0, 1, 0, 1, 0, 1]] * 3
    assert values["num_tokens"].tolist() == [6] * 3 and values["seed"].shape == (2,)
    assert memory_probe.make_batch(3, 400, SOURCE, None)["token_ids"].shape == (3, 9)
    text = memory_probe.make_batch(2, 7, TEXT, np.array([0, 0, 0.5, 0, 0, 0.5]))
    assert text["token_ids"].shape == text["character_ids"].shape == (2, 7) and "fbank" not in text
    assert set(text["token_ids"].ravel()) == {2, 5}


def test_a_tokens_probability_follows_its_number_of_characters_and_for_unk_the_data(tmp_path):
    """Every character is a candidate for <unk>, so a batch with 50 % <unk> needed 10 GB of memory."""
    language = small_models.make_without_dropout(tmp_path, "language")  # four tokens with two characters each
    np.testing.assert_allclose(memory_probe.token_probabilities(language, 0.0), [0, *[0.25] * 4])
    np.testing.assert_allclose(memory_probe.token_probabilities(language, 0.2), [0.2] * 5)
    acoustic = small_models.make_without_dropout(str(tmp_path / "a"), "acoustic")
    assert memory_probe.token_probabilities(acoustic, 0.0) is None


def test_probabilities_add_up_so_that_tokens_can_be_sampled(tmp_path):
    model = small_models.make_without_dropout(str(tmp_path), "language")
    for size in range(1, 200):
        mask = np.tri(size, dtype=bool)  # token i has i + 1 characters; token 0 is the unknown token
        readings = types.SimpleNamespace(mask=lambda *_, mask=mask: mask)
        probabilities = memory_probe.token_probabilities(dataclasses.replace(model, readings=readings), 0.0)
        sampled = memory_probe.make_batch(2, 7, TEXT, probabilities)["token_ids"]
        assert (sampled > 0).all() or size == 1


def build_hooks(tmp_path, rows, num_replicas, fetch):
    """Yields the hooks of two local replicas; their inputs are placeholders, so all of them must be fed."""
    tf.compat.v1.train.create_global_step()
    model = small_models.make_without_dropout(str(tmp_path), "acoustic")
    bucketing = buckets.Bucketing((40,), (rows,), 1)
    for _ in range(2):
        batch = memory_probe.make_batch(2, 40, SOURCE, None)
        features, labels = trial.placeholders((batch, {"token_ids": batch["token_ids"]}))
        sources = (model, SOURCE, bucketing, num_replicas, 0)
        yield memory_probe.MemoryProbeHook(features, labels, fetch(features, labels), *sources)


def test_inputs_of_all_replicas_are_fed_and_one_line_is_logged(tmp_path, log):
    fetched = []

    def fetch(features, labels):
        fetched.extend([tf.identity(features["num_frames"]), tf.identity(labels["token_ids"])])
        return tf.group(*fetched)

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        *_, hook = build_hooks(tmp_path, 7, 4, fetch)
        graph_variables.initialise(session)
        hook.after_create_session(session, None)
        session.run(tf.compat.v1.train.get_global_step().assign(5))
        hook.after_create_session(session, None)  # a session after an evaluation tries no batch
    (line,) = log
    assert line.startswith("largest batch (7 utterances of 40 frames): ")
    assert " s including set-up, peak " in line and line.endswith("GiB of memory")


def exhaust():
    raise MemoryError("no room for 1 TiB")


def test_a_batch_that_does_not_fit_in_memory_is_reported_in_one_sentence(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        hook, _ = build_hooks(tmp_path, 2, 1, lambda *_: tf.numpy_function(exhaust, [], tf.float32))
        graph_variables.initialise(session)
        said = "a batch of 2 utterances of 40 frames does not fit in memory; set --batch_frames below 80"
        with pytest.raises(errors.UserError, match=said):
            hook.after_create_session(session, None)
