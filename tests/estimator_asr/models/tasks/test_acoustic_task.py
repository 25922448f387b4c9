import dataclasses
import types

import numpy as np
import pytest
import small_models
import small_records
import tensorflow as tf
import tiny_models
from graph_variables import run

from estimator_asr.experiment import config
from estimator_asr.exporting.saved_model import cascade
from estimator_asr.models import acoustic
from estimator_asr.models.tasks import acoustic_task


@pytest.mark.parametrize(
    "tag, best, num_frames, expected",
    [
        # Class 2 is the blank; padding does not count.
        ("blank-fraction", [[2, 0, 2, 2], [1, 2, 2, 2]], [3, 1], (2, 4)),
        # One of the four tokens in the first row is in the first or last two frames, and both in the second.
        ("edge-fraction", [[0, 2, 1, 1, 1, 2, 2], [2, 2, 0, 1, 0, 0, 0]], [7, 4], (3, 6)),
    ],
)
def test_fractions_of_frames(tag, best, num_frames, expected):
    logits = np.eye(3, dtype=np.float32)[best]
    assert (
        run(lambda: acoustic_task.frame_fractions(tf.constant(logits), np.int32(num_frames))[tag]) == expected
    )


def test_decoder_targets_end_with_the_end_symbol():
    ids, num_tokens = np.int32([[4, 5], [6, 0]]), np.int32([2, 1])
    targets, weights = run(lambda: acoustic.decoder_targets(ids, num_tokens, 9))
    np.testing.assert_array_equal(targets, [[4, 5, 9], [6, 9, 9]])
    np.testing.assert_array_equal(weights, [[1, 1, 1], [1, 1, 0]])


@pytest.mark.parametrize(
    "chosen, token_ids, num_tokens, expected",
    [
        # Class 9 is the end. A label of row 1 and the end of row 2 are wrong; row 3 has no labels.
        ([[4, 5, 9], [6, 0, 0], [1, 1, 1]], [[4, 7], [6, 1], [1, 1]], [2, 1, 0], (2, 5)),
        ([[0, 4, 9]], [[0, 4]], [2], (1, 3)),  # an unknown label is never right
    ],
)
def test_the_teacher_forced_error_rate_counts_the_end_but_no_padding(chosen, token_ids, num_tokens, expected):
    labels = {"token_ids": np.int32(token_ids), "num_tokens": np.int32(num_tokens)}
    assert run(lambda: acoustic_task.teacher_forced_errors(tf.one_hot(chosen, 10), labels)) == expected


def run_losses(ctc_weight, num_frames, ids, num_tokens, has_decoder=True):
    """Returns training losses and metrics for logits that make all four classes equally probable."""

    def build():
        rows = len(num_frames)
        decoder = tf.zeros([rows, len(ids[0]) + 1, 4]) if has_decoder else None
        outputs = acoustic.AcousticOutputs(tf.zeros([rows, 1, 4]), tf.constant(num_frames), decoder)
        labels = {"token_ids": tf.constant(ids), "num_tokens": tf.constant(num_tokens)}
        model = types.SimpleNamespace(
            config=types.SimpleNamespace(acoustic=config.AcousticConfig(ctc_weight=ctc_weight))
        )
        sums = acoustic_task.Acoustic(model).losses(outputs, {}, labels, True)
        shown = {tag: ratio.value() for tag, ratio in sums.ratios().items()}
        return sums.parts, (sums.total, sums.num_labels), shown

    return run(build)


def test_each_loss_is_divided_by_its_number_of_labels():
    """Each label and each end symbol costs log 4, so the averages must be log 4."""
    # One frame has room for the label of the first row, but not for two; the third row is padding.
    ids, num_tokens = [[0, 0], [0, 1], [0, 0]], [1, 2, 0]
    parts, total, shown = run_losses(0.25, [1, 1, 0], ids, num_tokens)
    log4 = np.log(4)
    np.testing.assert_allclose(parts["ctc-loss"], (log4, 1), rtol=1e-6)
    np.testing.assert_allclose(parts["decoder-loss"], (5 * log4, 5), rtol=1e-6)  # 1 + 1 and 2 + 1 positions
    np.testing.assert_allclose(total, (4.0 * log4, 4.0), rtol=1e-6)  # 0.25 x 1 + 0.75 x 5
    assert shown == pytest.approx(dict.fromkeys(("avg-loss", "ctc-loss", "decoder-loss"), log4), rel=1e-6)


def test_the_local_loss_counts_only_in_training():
    def build():
        half, quarter = tf.constant([[[0.0, 0.0, -100.0, -100.0]]]), tf.zeros([1, 1, 4])
        outputs = acoustic.AcousticOutputs(half, tf.constant([1]), None, local_logits=quarter)
        labels = {"token_ids": tf.constant([[0]]), "num_tokens": tf.constant([1])}
        chosen = config.AcousticConfig(local_ctc_weight=0.25)
        task = acoustic_task.Acoustic(types.SimpleNamespace(config=types.SimpleNamespace(acoustic=chosen)))
        return [task.losses(outputs, {}, labels, training) for training in (True, False)]

    trained, evaluated = run(build)
    assert trained.total == pytest.approx(0.75 * np.log(2) + 0.25 * np.log(4))
    assert evaluated.total == pytest.approx(np.log(2))
    for each in (trained, evaluated):
        assert each.parts["local-ctc-loss"] == pytest.approx((np.log(4), 1)) and each.num_labels == 1


def test_without_alignable_labels_the_loss_is_that_of_the_decoder_or_zero():
    for ctc_weight, average in ((0.25, np.log(4)), (1.0, 0.0)):
        parts, _, shown = run_losses(ctc_weight, [1], [[0, 1]], [2])
        assert parts["ctc-loss"] == (0, 0)
        assert shown["avg-loss"] == pytest.approx(average, rel=1e-6)


def test_an_utterance_without_words_counts_one_label_per_eight_frames():
    def build():
        outputs = acoustic.AcousticOutputs(tf.zeros([3, 20, 4]), tf.constant([20, 20, 0]), None)
        labels = {"token_ids": tf.zeros([3, 1], tf.int32), "num_tokens": tf.constant([0, 1, 0])}
        return acoustic_task.ctc_part(outputs, labels)

    loss, count = run(build)
    assert count == 20 // 8 + 1
    # One path consists of blanks; the label has 210 paths, one for each choice of its first and last frame.
    assert loss == pytest.approx(20 * np.log(4) + (20 * np.log(4) - np.log(210)), rel=1e-5)


def test_without_a_decoder_the_loss_is_that_of_ctc_per_label_that_it_aligns():
    _, total, _ = run_losses(0.25, [1, 1], [[0, 0], [0, 1]], [1, 2], has_decoder=False)
    np.testing.assert_allclose(total, [np.log(4), 1], rtol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("padding", [np.nan, np.inf])
def test_nan_at_padding_has_the_loss_and_gradient_of_zeros(tmp_path, padding):
    model = small_models.make_without_dropout(str(tmp_path), "acoustic")
    records = small_records.make_records("train", 3)
    part = small_models.make_part(records, [0, 1, None, 2])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        fbank = tf.compat.v1.placeholder(tf.float32, part["fbank"].shape)
        inputs = {name: tf.constant(each) for name, each in part.items()}
        forward = acoustic_task.Acoustic(model).forward({**inputs, "fbank": fbank}, inputs, training=True)
        gradients = tf.gradients(forward.losses.average(), tf.compat.v1.trainable_variables())
        session.run(tf.compat.v1.global_variables_initializer())
        results = []
        for value in (0.0, padding):
            for row, num_frames in zip(part["fbank"], part["num_frames"]):
                row[num_frames:] = value
            results.append(session.run([forward.losses.total, *gradients], {fbank: part["fbank"]}))
    assert len(gradients) > 50 and all(np.isfinite(each).all() for each in results[0])
    for wanted, got in zip(*results):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.long
def test_a_row_that_fills_up_a_replica_has_no_loss(tmp_path):
    model = small_models.make_without_dropout(str(tmp_path), "acoustic")
    records = small_records.make_records("train", 1)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sums = []
        for rows in ([0], [0, None]):
            part = {name: tf.constant(each) for name, each in small_models.make_part(records, rows).items()}
            with tf.compat.v1.variable_scope("model", reuse=bool(sums)):
                sums.append(acoustic_task.Acoustic(model).forward(part, part, training=False).losses)
        session.run(tf.compat.v1.global_variables_initializer())
        alone, filled = session.run([[*each.parts["decoder-loss"], each.num_labels] for each in sums])
    np.testing.assert_allclose(alone, filled, rtol=1e-5)


@pytest.mark.long
def test_the_attention_decoder_ranks_the_hypotheses(tmp_path):
    """The decoder adds its log probability of each hypothesis, end symbol included."""
    model = tiny_models.make_acoustic_model(str(tmp_path / "am"))
    fbank = tiny_models.extract(tiny_models.make_waveform(9000, seed=2))[None]
    ranked = dataclasses.replace(model, decode=config.DecodeConfig(attention_weight=0.5))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features = {"fbank": tf.constant(fbank), "num_frames": tf.constant([fbank.shape[1]])}
        found = acoustic_task.Acoustic(ranked).recognise(features).n_best
        with tf.compat.v1.variable_scope("", reuse=True):
            before = acoustic_task.Acoustic(model).recognise(features).n_best
            repeated = {name: tf.repeat(value, 10, axis=0) for name, value in features.items()}
            labels = {"token_ids": tf.maximum(before.ids[0], 0), "num_tokens": before.num_tokens[0]}
            logits = acoustic_task.Acoustic(model).build(repeated, labels).decoder_logits
        targets, weights = acoustic.decoder_targets(*labels.values(), logits.shape[-1] - 1)
        log_probs = tf.gather(tf.nn.log_softmax(logits), targets, batch_dims=2) * weights
        cascade.restore(session, model, tf.train.latest_checkpoint(model.path))
        found, before, added = session.run([found, before, tf.reduce_sum(log_probs, axis=1)])
    expected = before.scores[0] + 0.5 * added
    order = np.argsort(-expected)
    assert order.tolist() != list(range(10))
    np.testing.assert_allclose(found.scores[0], expected[order], rtol=1e-4)
    np.testing.assert_array_equal(found.ids[0], before.ids[0][order])
    np.testing.assert_allclose(found.acoustic_scores[0], before.acoustic_scores[0][order], rtol=1e-5)


def build_decoder_losses(tmp_path, softmax, training, index):
    """Returns the variables' shapes, the losses of a batch in step `index`, and the number of operations."""
    model = small_models.make_without_dropout(str(tmp_path / f"{softmax}{training}{index}"), "acoustic")
    chosen = dataclasses.replace(model.config.acoustic, softmax=softmax, num_sampled=2, label_smoothing=0.0)
    settings = dataclasses.replace(model.config, acoustic=chosen, tokens_by_frequency=(3, 1, 2, 4, 0))
    model = dataclasses.replace(model, config=settings)
    records = small_records.make_records("train", 3)
    part = small_models.make_part(records, [0, 1, 2])
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        inputs = {name: tf.constant(each) for name, each in part.items()}
        inputs["seed"] = tf.constant([1, index], tf.int64)
        sums = acoustic_task.Acoustic(model).forward(inputs, inputs, training).losses
        session.run(tf.compat.v1.global_variables_initializer())
        names = {variable.op.name: variable.shape for variable in tf.compat.v1.global_variables()}
        return names, session.run((sums.parts, sums.total)), len(graph.get_operations())


@pytest.mark.long
@pytest.mark.parametrize("softmax", ["sampled", "nce"])
def test_a_sampled_softmax_is_used_only_in_training_and_adds_no_variables(tmp_path, softmax):
    full, sampled = (build_decoder_losses(tmp_path, name, True, 0) for name in ("full", softmax))
    assert sampled[0] == full[0]
    (parts, total), (full_parts, full_total) = sampled[1], full[1]
    assert set(parts) == {"ctc-loss", "decoder-loss", f"{softmax}-loss"}
    assert parts["decoder-loss"] == pytest.approx(full_parts["decoder-loss"])  # shown beside that of dev
    assert parts[f"{softmax}-loss"][1] == full_parts["decoder-loss"][1]
    weighted = 0.7 * parts["ctc-loss"][0] + 0.3 * parts[f"{softmax}-loss"][0]
    assert total == pytest.approx(weighted, rel=1e-5) and total != pytest.approx(full_total, rel=1e-3)
    evaluated = [build_decoder_losses(tmp_path, name, False, 0) for name in ("full", softmax)]
    assert evaluated[0][1:] == evaluated[1][1:]  # values and number of operations


@pytest.mark.long
def test_a_step_samples_the_same_tokens_again_and_another_step_others(tmp_path):
    first, again, other = (
        build_decoder_losses(tmp_path / str(number), "sampled", True, index)[1][0]["sampled-loss"]
        for number, index in enumerate((4, 4, 5))
    )
    assert first == again and first[0] != pytest.approx(other[0], rel=1e-4)


@pytest.mark.long
def test_score_beside_ctc_equals_what_the_search_added(tmp_path):
    """The scores come from the token bonus and the attention decoder."""
    model = tiny_models.make_acoustic_model(str(tmp_path / "am"))
    decode = config.DecodeConfig(token_bonus=1.5, attention_weight=0.5)
    writer = acoustic_task.Acoustic(dataclasses.replace(model, decode=decode))
    fbank = np.random.default_rng(0).normal(size=[2, 40, 20]).astype(np.float32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        features = {"fbank": tf.constant(fbank), "num_frames": tf.constant([40, 21])}
        found = writer.recognise(features)
        added = writer.score_beside_ctc(found, found.n_best.ids, found.n_best.num_tokens)
        checkpoint = str(tmp_path / "am" / f"model.ckpt-{tiny_models.GLOBAL_STEP}")
        tf.compat.v1.train.Saver().restore(session, checkpoint)
        n_best, added = session.run([found.n_best, added])
    is_found = n_best.scores > -1e30
    assert is_found.sum() > 4
    expected = n_best.scores - n_best.acoustic_scores
    np.testing.assert_allclose(added[is_found], expected[is_found], rtol=1e-3, atol=1e-3)
