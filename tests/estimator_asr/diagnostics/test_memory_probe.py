from __future__ import annotations

import dataclasses
import types

import graph_variables
import numpy as np
import pytest
import small_batches
import tensorflow as tf

from estimator_asr import task_spec
from estimator_asr.diagnostics import memory_probe
from estimator_asr.inputs import buckets, splits
from tfrecord_builder import errors

SOURCE = splits.Split(task_spec.ACOUSTIC, (), {}, 1.0, 5, "float16", 9, "")


def test_the_longest_and_the_largest_batch_are_tried():
    plan = buckets.Bucketing((10, 30, 100), (10, 4, 1), 3)
    assert memory_probe.candidates(plan) == [(1, 100), (4, 30)]
    assert memory_probe.candidates(buckets.Bucketing((10, 20), (9, 5), 3)) == [(5, 20)]


def test_a_batch_has_the_shapes_of_the_input():
    values = memory_probe.make((3, 41), 5, 9, None)
    assert values["fbank"].shape == (3, 41, 5) and values["num_frames"].tolist() == [41] * 3
    # 41 frames are 11 after subsampling; half of them, and labels that do not repeat, always fit.
    assert (
        values["token_ids"].tolist() == [[0, 1, 0, 1, 0, 1]] * 3 and values["num_tokens"].tolist() == [6] * 3
    )
    assert memory_probe.make((3, 400), 5, 9, None)["token_ids"].shape == (3, 9)
    text = memory_probe.make((2, 7), None, 9, np.array([0, 0, 0.5, 0, 0, 0.5]))
    assert text["token_ids"].shape == text["character_ids"].shape == (2, 7) and "fbank" not in text
    assert set(text["token_ids"].ravel()) == {2, 5}


def test_tokens_of_text_come_as_often_as_they_have_characters_and_the_unknown_one_as_in_the_data(tmp_path):
    """<unk> may stand for every character: a batch half full of it took 10 GB."""
    language = small_batches.make_model(str(tmp_path), "language")  # each of four tokens has two characters
    np.testing.assert_allclose(memory_probe.token_shares(language, 0.0), [0, 0.25, 0.25, 0.25, 0.25])
    np.testing.assert_allclose(memory_probe.token_shares(language, 0.2), [0.2, 0.2, 0.2, 0.2, 0.2])
    assert memory_probe.token_shares(small_batches.make_model(str(tmp_path / "a"), "acoustic"), 0.0) is None


def test_shares_are_such_that_tokens_can_be_drawn(tmp_path):
    model = small_batches.make_model(str(tmp_path), "language")
    for size in range(1, 200):
        mask = np.tri(size, dtype=bool)  # one token more has one character more; the first is the unknown one
        readings = types.SimpleNamespace(mask=lambda *_, mask=mask: mask)
        shares = memory_probe.token_shares(dataclasses.replace(model, readings=readings), 0.0)
        drawn = memory_probe.make((2, 7), None, 9, shares)["token_ids"]
        assert (drawn > 0).all() or size == 1


def replica(values):
    """What a replica's model_fn does: placeholders stand for the iterator, which would fail."""
    tensors = {key: tf.compat.v1.placeholder(tf.float32, value.shape) for key, value in values.items()}
    memory_probe.remember(tensors, {"token_ids": tf.compat.v1.placeholder(tf.float32, [None, None])})
    return tensors


def test_all_replicas_of_a_machine_are_fed_their_part_and_nothing_is_said_but_a_line(monkeypatch):
    said = []
    monkeypatch.setattr(memory_probe.logging, "info", said.append)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        values = memory_probe.make((2, 40), 5, 9, None)  # so many rows the placeholders take
        replicas = [replica(values) for _ in range(2)]
        fetch = tf.add_n([tf.reduce_sum(tensors["num_frames"]) for tensors in replicas])
        hook = memory_probe.WorstBatchHook(fetch, SOURCE, None, [(7, 40)], num_replicas=4, first_step=0)
        hook.begin()
        graph_variables.initialise(session)
        hook.after_create_session(session, None)
        session.run(tf.compat.v1.train.get_global_step().assign(5))
        hook.after_create_session(session, None)  # goes on after an evaluation
    assert len(said) == 1
    assert (
        said[0].startswith("worst batch: 7 utterances of 40 frames: ") and "GiB of memory in all" in said[0]
    )


def exhaust():
    raise MemoryError("no room for 1 TiB")


def test_too_large_a_batch_is_one_sentence():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        replica(memory_probe.make((2, 40), 5, 9, None))
        hook = memory_probe.WorstBatchHook(
            tf.numpy_function(exhaust, [], tf.float32), SOURCE, None, [(2, 40)], num_replicas=1, first_step=0
        )
        hook.begin()
        graph_variables.initialise(session)
        with pytest.raises(
            errors.UserError,
            match="of 40 frames is more than the memory holds, .*; give a --batch_frames below 80",
        ):
            hook.after_create_session(session, None)
