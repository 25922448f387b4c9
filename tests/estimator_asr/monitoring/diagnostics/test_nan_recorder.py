import math
import os

import numpy as np
import pytest
import small_records
import tensorflow as tf

from estimator_asr.monitoring.diagnostics import nan_files, nan_recorder
from tfrecord_builder import errors
from tfrecord_builder.data import schema

RECORDS = [schema.make_example(record) for record in small_records.make_records("train", 5)]
ROW = nan_files.BatchRow("dev000", "S", 9, 1)


class Training:
    """Trains with the given loss in each step, and with a NanRecorderHook."""

    def __init__(self, model_dir, losses, max_skipped=0, **options):
        self.losses, self.read_positions = losses, []
        step = tf.compat.v1.train.get_or_create_global_step()
        loss = tf.gather(tf.constant(losses), step)
        self.number = tf.identity(step)
        tensors = {
            "is_finite": tf.math.is_finite(loss),
            "number": self.number,
            "position": tf.stack([tf.constant(3, tf.int64), self.number]),
            "loss": loss,
            "gradient_norm": 2 * loss,
            "learning_rate": tf.constant(0.1),
        }
        arguments = (tensors, str(model_dir), '{"model": 1}', self.read, "float16", max_skipped)
        self.hook = nan_recorder.NanRecorderHook(*arguments, **options)
        with tf.control_dependencies([self.number, *tensors.values()]):
            self.train_op = step.assign_add(1)

    def read(self, position):
        self.read_positions.append(list(position))
        return RECORDS

    def run(self):
        """Runs a step for each loss; returns the numbers of the steps."""
        with tf.compat.v1.train.MonitoredSession(hooks=[self.hook]) as session:
            return [session.run([self.number, self.train_op])[0] for _ in self.losses]


pytestmark = pytest.mark.usefixtures("graph")


def test_the_first_step_with_nan_ends_training_with_one_sentence(tmp_path):
    training = Training(tmp_path, [1.0, math.nan, 1.0])
    path = tmp_path / "nan" / "step-1"
    with pytest.raises(errors.UserError) as error:
        training.run()
    assert str(error.value) == (
        f"{path}: loss is nan for utterances train000, train001, train002 and 2 more at step 1; "
        f"to find the cause, run python -m estimator_asr.replay --nan_dir={path}; to skip the batch and "
        "continue, pass --skip_bad_batches=1"
    )
    report = nan_files.read_report(str(path))
    assert (report["step"], report["position"]) == (1, [3, 1]) and training.read_positions == [[3, 1]]
    assert report["learning_rate"] == pytest.approx(0.1) and report["gradient_norm"] == "nan"
    assert report["tensorflow"] == tf.__version__
    assert tf.train.load_variable(str(path / "model.ckpt"), "global_step") == 2
    assert (path / "config.json").read_text() == '{"model": 1}\n'
    assert list(nan_files.read_quarantine(str(tmp_path))) == [1]


def test_steps_within_the_limit_are_skipped_and_listed_in_quarantine(tmp_path, log):
    training = Training(tmp_path, [math.inf, 1.0, math.nan, 1.0], max_skipped=2)
    assert training.run() == [0, 1, 2, 3]
    assert sorted(os.listdir(tmp_path / "nan")) == ["quarantine.tsv", "step-0", "step-2"]
    assert [len(rows) for rows in nan_files.read_quarantine(str(tmp_path)).values()] == [5, 5]
    assert log[0].startswith("step 0 was skipped: loss is inf for utterances train000, ")
    assert log[0].endswith(f"and 2 more; 1 of at most 2 steps have been skipped; see {tmp_path}/nan/step-0")


def test_steps_of_earlier_runs_count_but_the_same_step_only_once(tmp_path, log):
    with pytest.raises(errors.UserError, match="to skip the batch and continue, pass --skip_bad_batches=1"):
        Training(tmp_path, [math.nan]).run()
    with tf.Graph().as_default():
        assert Training(tmp_path, [math.nan, 1.0], max_skipped=1).run() == [0, 1]
    with tf.Graph().as_default():
        said = "at step 2 after --skip_bad_batches=1; .* and continue, pass --skip_bad_batches=2"
        with pytest.raises(errors.UserError, match=said):
            Training(tmp_path, [math.nan, 1.0, math.inf], max_skipped=1).run()


def test_utterances_that_are_in_all_bad_batches_are_named(tmp_path, log):
    os.makedirs(tmp_path / "nan")
    others = [ROW._replace(utterance_id=name) for name in ("dev000", "train003")]
    nan_files.add_to_quarantine(str(tmp_path), 9, (1, 9), others)
    with pytest.raises(errors.UserError, match="; all 2 batches with NaN or Inf contain train003; to"):
        Training(tmp_path, [1.0, math.nan], max_skipped=1).run()


def test_a_worker_that_does_not_write_stops_alike_and_counts_the_steps_of_earlier_runs(tmp_path, log):
    training = Training(tmp_path, [math.nan, 1.0, math.nan], max_skipped=1, is_writer=False)
    refused = pytest.raises(errors.UserError, match="loss is nan at step 2 after --skip_bad_batches=1")
    with refused:
        training.run()
    assert os.listdir(tmp_path) == [] and training.read_positions == []
    os.makedirs(tmp_path / "nan")
    nan_files.add_to_quarantine(str(tmp_path), 9, (1, 9), [ROW])  # the chief did this before a restart
    with tf.Graph().as_default(), refused:
        Training(tmp_path, [1.0, 1.0, math.nan], max_skipped=1, is_writer=False).run()


def test_only_the_first_bad_batch_of_a_step_is_recorded(tmp_path, log):
    training = Training(tmp_path, [1.0], max_skipped=1)
    values = {
        "is_finite": False,
        "number": 4,
        "learning_rate": 1,
        "loss": math.nan,
        "gradient_norm": math.nan,
    }
    with tf.compat.v1.train.SingularMonitoredSession([training.hook]) as session:
        context = tf.compat.v1.train.SessionRunContext(None, session.raw_session())
        for index in range(2):
            results = {**values, "position": np.int64([3, index])}
            training.hook.after_run(context, tf.compat.v1.train.SessionRunValues(results, None, None))
    assert training.read_positions == [[3, 0]]


@pytest.mark.long
def test_a_step_that_is_bad_on_one_replica_is_skipped_by_both_and_recorded(two_replicas):
    skipped, _ = two_replicas["recorded"]
    # Only steps 0 and 2 count; their gradients are (1 + 2) / 2 and (5 + 6) / 2. The momentum is 1.5, then
    # 0.9 x 1.5 + 5.5.
    assert skipped["moment"] == pytest.approx(6.85)
    assert skipped["weight"] == pytest.approx(1 - 0.1 * (1.5 + 6.85))
    assert skipped["before"] == pytest.approx([0.85, 1.5])
    assert skipped["written"] == ["quarantine.tsv", "step-1", "step-3"] and skipped["said"] is None


@pytest.mark.long
def test_two_replicas_end_when_too_many_steps_were_bad(two_replicas):
    _, ended = two_replicas["recorded"]
    said = "loss is inf for utterances train000, train001 at step 3 after --skip_bad_batches=1"
    assert said in ended["said"] and ended["written"] == ["quarantine.tsv", "step-1", "step-3"]
