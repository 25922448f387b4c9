import pytest
import small_models
import small_records

from estimator_asr.experiment import config, experiment, training_config
from estimator_asr.inputs import input_progress
from estimator_asr.training import plan as plan_lib


@pytest.fixture
def plan(tmp_path):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, splits=[("train", 24)], with_audio=False)

    def plan(first_step=0, *, batch_tokens=6, accumulation=1, **train):
        settings = experiment.ExperimentConfig.for_data(
            info,
            input=config.InputConfig(batch_tokens=batch_tokens, num_buckets=3),
            optimizer=training_config.OptimizerConfig(gradient_accumulation_steps=accumulation),
            train=training_config.TrainConfig(model="language", **train),
        )
        model = small_models.create_or_check(str(tmp_path / "model"), settings, path)
        made = plan_lib.build_plan(model, [info], [path], first_step)
        input_progress.save(model.path, made.progress)
        return made

    return plan


# The data has eight utterances each of 1, 2 and 3 tokens. With six tokens per batch, an epoch has 2 batches
# of up to 6 utterances, 3 batches of up to 3, and 4 batches of 2.
def test_a_new_training_starts_at_the_first_batch(plan):
    made = plan(train_epochs=2.5)
    assert (made.steps_per_epoch, made.max_steps, made.step_offset) == (9, 23, 0)
    assert made.batch_size == pytest.approx(24 / 9) and made.start == (0, 0)


def test_gradient_accumulation_reduces_the_steps_per_epoch(plan):
    made = plan(train_epochs=2, accumulation=4)
    assert (made.steps_per_epoch, made.max_steps, made.batch_size) == (9 / 4, 5, pytest.approx(24 * 4 / 9))


def test_train_steps_takes_precedence_over_train_epochs(plan):
    assert plan(train_steps=7).max_steps == 7


def test_smaller_batches_restart_the_epoch_and_train_as_many_epochs(plan, log):
    plan(train_epochs=3)
    made = plan(12, batch_tokens=3, train_epochs=3)
    # An epoch has 3 + 8 + 8 batches of three tokens. Step 12 is in the second epoch of 9 steps.
    assert made.steps_per_epoch == 19 and made.start == (1, 0)
    assert made.max_steps == 12 + 2 * 19 and made.step_offset == 19 - 12
    assert log == [
        "epoch 1 starts again, because the batch sizes, the data, the seed or the number of replicas "
        "changed after 3 batches"
    ]
    again = plan(15, batch_tokens=3, train_epochs=3)
    assert again.start == (1, 3) and again.max_steps == made.max_steps and len(log) == 1


def test_epochs_of_a_schedule_follow_changed_batches(plan):
    plan(accumulation=4)
    made = plan(5, batch_tokens=3, accumulation=4)  # 20 batches, 9 per epoch: epoch 3 begins again
    assert (made.start, made.steps_per_epoch) == ((2, 0), 4.75)
    assert made.step_offset == 2 * 4.75 - 5  # epoch 3 ends at step 9.75; with these batches only, at 14.25


def test_changed_batches_at_the_end_of_an_epoch_are_not_logged(plan, log):
    plan(train_steps=20)
    assert plan(9, train_steps=20, seed=5).start == (1, 0) and log == []


def test_the_plan_is_logged(plan, log):
    made = plan(train_epochs=3)
    optimizer = training_config.OptimizerConfig(learning_rate=0.012, learning_rate_batch_size=32)
    plan_lib.log_plan(made, optimizer, num_replicas=2)
    assert log == [
        "train: 24 utterances, 48 tokens; 9 batches per epoch in 3 buckets, "
        "2.7 utterances per step, 0.0% padding",
        "batch sizes in utterances x tokens: 6 x 1, 3 x 2, 2 x 3",
        "training: 27 steps (3.0 epochs), 2 replica(s), initial learning rate 0.001",
    ]
