import math
import random
import shlex

import alarm_cases
import healthy_training
import program_flags
import pytest

from estimator_asr.monitoring import alarms, observations

TRAINING = alarm_cases.TRAINING
repeat = alarm_cases.repeat
BLANK = {"blank-fraction": 1.0, "length-ratio": 0.0, "repeated-fraction": 1.0}
HEALTHY = {
    **{"blank-fraction": 0.75, "length-ratio": 0.95, "repeated-fraction": 0.02},
    **{"gradient-zero-fraction": 0.01, "too-long-fraction": 0.0},
}
EQUAL_LOSSES = observations.ObservedStep(20, {}, (3.25,) * 20)
# Kind of alarm; a metric at its threshold, and just below; last step at which the metric is ignored.
THRESHOLDS = [
    ("all-blank", {"blank-fraction": 0.99}, {"blank-fraction": 0.989}, TRAINING.settled_step),
    ("repeated", {"repeated-fraction": 0.5}, {"repeated-fraction": 0.49}, TRAINING.settled_step),
    ("short-hypotheses", {"length-ratio": 0.49}, {"length-ratio": 0.5}, TRAINING.late_step),
    ("long-hypotheses", {"length-ratio": 1.51}, {"length-ratio": 1.5}, TRAINING.late_step),
    ("zero-gradients", {"gradient-zero-fraction": 0.9}, {"gradient-zero-fraction": 0.89}, -1),
    ("too-long-labels", {"too-long-fraction": 0.1}, {"too-long-fraction": 0.09}, -1),
    ("unpaired-characters", {"used-label-fraction": 0.5}, {"used-label-fraction": 0.51}, -1),
]


def raised(steps, training=TRAINING):
    """Returns the sentences of the alarms that training steps raise, keyed by kind."""
    return check(alarms.STEP_ALARMS, observations.Observations(training, steps))


def raised_on_dev(*evaluations):
    return check(alarms.DEV_ALARMS, observations.Observations(TRAINING, evaluations=evaluations))


def check(kinds, observed):
    found = {kind: alarm.check(observed) for kind, alarm in kinds.items()}
    return {kind: sentence for kind, sentence in found.items() if sentence}


@pytest.mark.parametrize("kind, bad, good, begin", THRESHOLDS)
def test_an_alarm_is_raised_if_all_of_the_last_observations_reach_its_threshold(kind, bad, good, begin):
    rows = repeat({**HEALTHY, **bad}, count=3 if begin < 0 else 5)
    healthy = repeat({**HEALTHY, **good})
    assert list(raised(rows)) == [kind]
    assert raised(healthy) == {}
    assert raised(rows[1:]) == {}  # one observation too few
    assert raised([*rows[:-2], healthy[0], rows[-1]]) == {}


@pytest.mark.parametrize("kind, bad, good, begin", [row for row in THRESHOLDS if row[3] > 0])
def test_early_steps_raise_no_alarm(kind, bad, good, begin):
    metrics = {**HEALTHY, **bad}
    assert raised(repeat(metrics, last_step=begin + 200)) == {}  # the first of five observations is ignored
    assert list(raised(repeat(metrics, last_step=begin + 201))) == [kind]


@pytest.mark.parametrize(
    "metrics, options, kinds",
    [
        (BLANK, {"last_step": 9000}, ["all-blank"]),
        # Equal hypotheses are no fault if most of them are right.
        ({**HEALTHY, "repeated-fraction": 0.6}, {"error_rate": 0.5}, ["repeated"]),
        ({**HEALTHY, "repeated-fraction": 0.6}, {"error_rate": 0.49}, []),
        ({**HEALTHY, "gradient-zero-fraction": 1.0}, {"loss": 0.0, "error_rate": 0.0}, []),
        ({}, {"loss": 0.0, "error_rate": 0.0}, []),
        ({}, {"loss": 0.0, "error_rate": 1.0}, ["constant-loss"]),
    ],
)
def test_metrics_together_raise_at_most_one_alarm(metrics, options, kinds):
    assert list(raised(repeat(metrics, **options))) == kinds


def test_twenty_equal_losses_are_an_alarm():
    one_each = [EQUAL_LOSSES._replace(number=step, losses=(3.25,)) for step in range(20)]
    for steps in ([EQUAL_LOSSES], one_each):
        assert list(raised(steps)) == ["constant-loss"]
    for losses in ((3.25,) * 19, (*(3.25,) * 19, 3.2500001)):
        assert raised([EQUAL_LOSSES._replace(losses=losses)]) == {}


def curve(loss_at, *, steps=2000, noise=0.15, seed=1, **metrics):
    """Returns observations, 50 steps apart, of a loss that is as noisy as the losses of real batches."""
    samples, rows = random.Random(seed), []
    metrics = {**HEALTHY, "token-error-rate": 0.8, "learning-rate": 0.001, **metrics}
    for end in range(50, steps + 1, 50):
        losses = tuple(loss_at(step) * (1 + noise * samples.gauss(0, 1)) for step in range(end - 49, end + 1))
        rows.append(observations.ObservedStep(end, metrics, losses))
    return rows


def first_alarm(rows):
    """Adds observations one by one; returns the step of the first alarm, or None."""
    counts = range(1, len(rows) + 1)
    return next((rows[n - 1].number for n in counts if raised(rows[max(0, n - 30) : n])), None)


def test_a_flat_loss_is_an_alarm_after_warm_up_and_twice_the_patience():
    assert first_alarm(curve(lambda step: 5.0, noise=1e-6)) == 1100
    assert first_alarm(curve(lambda step: 5.0 + 0.001 * step, noise=1e-6)) == 1100
    assert all(first_alarm(curve(lambda step: 5.0, seed=seed)) for seed in range(5))


def test_a_loss_that_falls_slowly_within_its_noise_is_no_alarm():
    """The loss falls by 3 % in 500 steps, while the losses of batches differ by 15 %."""
    fall = [curve(lambda step: 5.0 * 0.97 ** (step / 500), seed=seed) for seed in range(10)]
    assert [first_alarm(rows) for rows in fall] == [None] * 10


def test_a_loss_that_once_fell_gets_other_advice():
    (said,) = raised(curve(lambda step: 5.0 if step < 700 else 4.7, noise=1e-6)).values()
    assert "is too high, or the model is too small" in said
    assert said.endswith("--model_dir=AM-rate0.0005 --learning_rate=0.0005")
    (said,) = raised(curve(lambda step: 5.0 if step < 700 else 4.8, noise=1e-6)).values()
    assert "and hardly fell before" in said and said.endswith("--overfit_batches=1")


@pytest.mark.parametrize("fall, kinds", [(0.0019, ["loss-never-fell"]), (0.0021, [])])
def test_a_fall_below_the_threshold_is_an_alarm(fall, kinds):
    rows = curve(lambda step: 5.0 if step <= 600 else 5.0 * (1 - fall), steps=1100, noise=0.0)
    assert [kind for kind in raised(rows) if kind != "constant-loss"] == kinds


@pytest.mark.parametrize(
    "metrics", [{"token-error-rate": 0.1}, {"learning-rate": 0.00019}, {"blank-fraction": 0.99}]
)
def test_a_flat_loss_of_a_finished_or_all_blank_model_is_no_alarm(metrics):
    assert first_alarm(curve(lambda step: 0.4, **metrics)) is None


SHORT = TRAINING._replace(warmup_steps=80, max_steps=800)


@pytest.mark.parametrize("patience", [100, 200, 500])
def test_a_real_healthy_training_raises_no_alarm(patience):
    rate = healthy_training.LEARNING_RATE
    training = SHORT._replace(peak_rate=rate, constant_loss_steps=patience)
    rows = healthy_training.make_steps()
    for count in range(1, len(rows) + 1):
        assert raised(rows[:count], training) == {}, rows[count - 1].number


def test_a_training_that_stays_all_blank_raises_an_alarm():
    rows = healthy_training.make_steps()
    stuck = [*rows[:7], *(row._replace(metrics=rows[0].metrics) for row in rows[7:])]
    assert "all-blank" in raised(stuck[:30], SHORT._replace(constant_loss_steps=200))


def gaps(train, dev, forced=1.0, steps=(8000, 8500)):
    dev = {"token-error-rate": dev, "teacher-forced-error-rate": forced}
    metrics = {} if train is None else {"token-error-rate": train}
    rows = [observations.DevEvaluation(step, metrics, dev) for step in steps]
    return raised_on_dev(*rows)


@pytest.mark.parametrize(
    "train, dev, kinds",
    [
        (0.2, 0.5, ["dev-gap"]),
        (0.21, 0.9, []),  # the error rate in training is still too high
        (0.2, 0.49, []),
        (0.02, 0.12, []),  # a normal difference between speakers
        (0.02, 0.01, []),
        (None, 0.9, []),
    ],
)
def test_low_training_errors_and_high_dev_errors_are_an_alarm(train, dev, kinds):
    assert list(gaps(train, dev)) == kinds


@pytest.mark.parametrize(
    "forced, decoded, kinds",
    [
        (0.1, 0.4, ["decoding-gap"]),
        (0.1, 0.39, []),
        (0.4, 0.8, ["decoding-gap"]),
        (0.4, 0.79, []),  # less than twice as many errors
        (0.5, 0.4, []),
    ],
)
def test_low_teacher_forced_and_high_decoded_errors_are_an_alarm(forced, decoded, kinds):
    assert list(gaps(1.0, decoded, forced)) == kinds


def test_one_evaluation_or_one_too_early_is_not_enough():
    assert gaps(0.1, 0.9, 0.1, steps=[8000]) == {}
    assert gaps(0.1, 0.9, 0.1, steps=[TRAINING.settled_step, 8000]) == {}
    assert list(gaps(0.1, 0.9, 0.1, steps=[TRAINING.late_step, 8000])) == ["dev-gap"]
    late = [TRAINING.late_step + 1, 8000]
    assert list(gaps(0.1, 0.9, 0.1, steps=late)) == ["decoding-gap", "dev-gap"]


def test_the_sentences_of_gaps_show_both_metrics_and_the_next_command():
    said = gaps(0.1, 0.9, 0.1)
    assert said["dev-gap"].startswith("the error rate is 10 % in training but 90 % on dev; likely cause: ")
    where = "--model_dir=AM --data_dir=DATA,MORE"
    command = f"python -m estimator_asr.evaluate {where} --split=dev --output_dir=AM-report"
    assert said["dev-gap"].endswith(command)
    assert said["decoding-gap"].startswith("on dev, 90 % of the decoded tokens are wrong, but only 10 % ")
    assert said["decoding-gap"].endswith(f"{TRAINING.command} --model_dir=AM-ctc0.9 --ctc_weight=0.9")


def on_dev(step, **metrics):
    dev = {tag.replace("_", "-"): value for tag, value in metrics.items()}
    return raised_on_dev(observations.DevEvaluation(step, {}, {"global-step": step, **dev}))


@pytest.mark.parametrize("step", [1, 8000])
def test_a_nan_loss_on_dev_is_an_alarm_at_once(step):
    assert on_dev(step, avg_loss=math.nan, loss=math.nan, ctc_loss=2.0) == {
        "dev-nan": "metrics on dev are NaN (avg-loss, loss), so this checkpoint cannot become the best; "
        "likely cause: the weights or the features of dev contain NaN or Inf; check the data: python -m "
        "tfrecord_builder.verify --data_dir=DATA,MORE"
    }
    assert on_dev(step, avg_loss=2.0, ctc_loss=math.inf) == {}


def test_empty_hypotheses_on_dev_are_an_alarm_once_they_should_not_be():
    late = TRAINING.settled_step + 1
    assert on_dev(late, length_ratio=0.0) == {
        "dev-empty": "the model outputs hardly anything on dev (0 % as many tokens as the references have); "
        "likely cause: the learning rate is far off, or the labels do not belong to the audio; test whether "
        f"one batch can be memorised: {TRAINING.command} --overfit_batches=1"
    }
    assert on_dev(late, length_ratio=0.01)
    assert on_dev(late, length_ratio=0.011) == {}
    assert on_dev(late - 1, length_ratio=0.0) == {}
    assert on_dev(late, character_error_rate=1.0) == {}  # a language model has no length ratio


@pytest.mark.long
def test_every_sentence_ends_with_a_command_that_its_program_accepts():
    cases = [repeat({**HEALTHY, **bad}) for _, bad, _, _ in THRESHOLDS]
    cases += [[EQUAL_LOSSES], curve(lambda step: 5.0), curve(lambda step: 5.0 if step < 700 else 4.0)]
    said = {kind: sentence for steps in cases for kind, sentence in raised(steps).items()}
    said.update(gaps(0.1, 0.9, 0.1))
    said.update(on_dev(8000, length_ratio=0.0, avg_loss=math.nan))
    assert set(said) == {*alarms.STEP_ALARMS, *alarms.DEV_ALARMS}
    asked = {}
    for kind, sentence in said.items():
        assert sentence.count("python -m ") == 1 and "\n" not in sentence
        _, _, module, *flags = shlex.split(sentence[sentence.index("python -m ") :])
        asked.setdefault(module, {})[kind] = flags
    answers = program_flags.ask(asked)
    parsed = [answer for module in answers.values() for answer in module["parsed"].values()]
    assert [answer for answer in parsed if answer.get("words") != []] == []


FIRST_DAY = TRAINING._replace(steps_per_epoch=12.0, num_utterances=34, hours=0.0418, max_steps=36)
LITTLE = (
    "likely cause: the model has seen too little data (500.0 epochs of 34 utterances, 0.04 hours), so train "
    "on more data "
)


def test_too_little_data_is_named_in_alarms_on_hypotheses_and_losses_but_not_on_faulty_data():
    """Step 6000 ends epoch 500. Alarms that more data would not prevent do not mention the amount of data."""
    kinds = {"all-blank": BLANK}
    kinds.update({kind: {**HEALTHY, **bad} for kind, bad, _, _ in THRESHOLDS if kind != "all-blank"})
    said = {kind: raised(repeat(bad), FIRST_DAY)[kind] for kind, bad in kinds.items()}
    named = {kind for kind, sentence in said.items() if LITTLE in sentence}
    assert named == {"all-blank", "repeated", "short-hypotheses", "long-hypotheses"}
    assert all("too little" not in said[kind] for kind in said.keys() - named)
    flat = raised(repeat(HEALTHY, count=30, last_step=6000), FIRST_DAY)
    assert [LITTLE in flat[kind] for kind in flat] == [True] and "loss" in next(iter(flat))
    dev = {"token-error-rate": 0.9, "teacher-forced-error-rate": 0.1, "length-ratio": 0.0}
    gap = [observations.DevEvaluation(6000, {"token-error-rate": 0.1}, dev)] * 2
    found = check(alarms.DEV_ALARMS, observations.Observations(FIRST_DAY, evaluations=gap))
    assert found.keys() == {"dev-empty", "decoding-gap", "dev-gap"}
    assert all(LITTLE in sentence for sentence in found.values())
