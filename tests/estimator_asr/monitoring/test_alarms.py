from __future__ import annotations

import math
import random
import shlex

import alarm_cases
import healthy_course
import program_flags
import pytest

from estimator_asr.monitoring import alarms, dev_alarms, readings

CONTEXT = alarm_cases.CONTEXT
repeat = alarm_cases.repeat
BLANK = {"blank-share": 1.0, "length-ratio": 0.0, "repeated-share": 1.0}
HEALTHY = {
    "blank-share": 0.75,
    "length-ratio": 0.95,
    "repeated-share": 0.02,
    "gradient-zero-share": 0.01,
    "too-long-share": 0.0,
}
# Rule, a figure at its threshold, one on the healthy side, and the step before which it keeps quiet.
THRESHOLDS = [
    ("all-blank", {"blank-share": 0.99}, {"blank-share": 0.989}, CONTEXT.settled_step),
    ("repeated", {"repeated-share": 0.5}, {"repeated-share": 0.49}, CONTEXT.settled_step),
    ("length", {"length-ratio": 0.49}, {"length-ratio": 0.5}, CONTEXT.late_step),
    ("length", {"length-ratio": 1.51}, {"length-ratio": 1.5}, CONTEXT.late_step),
    ("zero-gradients", {"gradient-zero-share": 0.9}, {"gradient-zero-share": 0.89}, -1),
    ("unusable-labels", {"too-long-share": 0.1}, {"too-long-share": 0.09}, -1),
    ("unusable-labels", {"used-label-share": 0.5}, {"used-label-share": 0.51}, -1),
]


def bark(rows, context=CONTEXT):
    """Kinds of the alarms that the rules give for the readings."""
    return [kind for kind, rule in alarms.RULES.items() if rule(rows, context)]


@pytest.mark.parametrize("kind, bad, good, begin", THRESHOLDS)
def test_at_and_below_the_threshold(kind, bad, good, begin):
    assert bark(repeat({**HEALTHY, **bad})) == [kind]
    assert bark(repeat({**HEALTHY, **good})) == []


@pytest.mark.parametrize("kind, bad, good, begin", THRESHOLDS)
def test_one_healthy_reading_among_the_last_is_enough_to_keep_quiet(kind, bad, good, begin):
    count = 3 if begin < 0 else 5
    rows = repeat({**HEALTHY, **bad}, count=count)
    assert bark(rows[1:]) == []  # too few
    assert bark([*rows[:-2], repeat({**HEALTHY, **good})[0], rows[-1]]) == []


@pytest.mark.parametrize("kind, bad, good, begin", [row for row in THRESHOLDS if row[3] > 0])
def test_it_waits_until_the_figure_means_something(kind, bad, good, begin):
    rows = {**HEALTHY, **bad}
    assert bark(repeat(rows, last_step=begin + 200)) == []  # the first of five is at that very step
    assert bark(repeat(rows, last_step=begin + 201)) == [kind]


def test_a_model_that_writes_blanks_is_told_once():
    assert bark(repeat(BLANK, last_step=9000)) == ["all-blank"]


def test_hypotheses_that_are_the_same_and_right_are_no_alarm():
    assert bark(repeat({**HEALTHY, "repeated-share": 0.6}, error_rate=0.5)) == ["repeated"]
    assert bark(repeat({**HEALTHY, "repeated-share": 0.6}, error_rate=0.49)) == []


def test_gradients_are_zero_where_all_is_learned():
    assert bark(repeat({**HEALTHY, "gradient-zero-share": 1.0}, loss=0.0, error_rate=0.0)) == []


@pytest.mark.parametrize("form", ["one-hot", "equal"])
def test_labels_of_an_odd_form(form):
    rows = repeat(HEALTHY, count=3, last_step=150, label_form=form)
    assert bark(rows) == ["labels"]
    assert bark(rows[1:]) == []
    assert bark([rows[0], repeat(HEALTHY)[0], rows[2]]) == []


def test_a_loss_that_is_exactly_the_same():
    same = readings.Reading(20, {}, (3.25,) * 20)
    assert bark([same]) == ["constant-loss"]
    assert bark([same._replace(losses=(3.25,) * 19)]) == []
    assert bark([same._replace(losses=(*(3.25,) * 19, 3.2500001))]) == []
    assert bark([readings.Reading(step, {}, (3.25,)) for step in range(20)]) == ["constant-loss"]


def test_a_loss_of_zero_is_an_alarm_only_with_errors():
    zero = readings.Reading(20, {"token-error-rate": 0.0}, (0.0,) * 20)
    assert bark([zero]) == []
    assert bark([zero._replace(figures={"token-error-rate": 1.0})]) == ["constant-loss"]


def curve(loss_at, *, steps=2000, noise=0.15, seed=1, **figures):
    """Readings 50 steps apart of a loss with the noise that batches have."""
    draws, rows = random.Random(seed), []
    shown = {**HEALTHY, "token-error-rate": 0.8, "learning-rate": 0.001, **figures}
    for end in range(50, steps + 1, 50):
        losses = tuple(loss_at(step) * (1 + noise * draws.gauss(0, 1)) for step in range(end - 49, end + 1))
        rows.append(readings.Reading(end, shown, losses))
    return rows


def first_bark(rows):
    """Step of the first alarm, readings coming one by one; None without."""
    for count in range(1, len(rows) + 1):
        if bark(rows[max(0, count - 30) : count]):
            return rows[count - 1].step
    return None


def test_a_flat_loss_is_an_alarm_after_warm_up_and_twice_the_patience():
    assert first_bark(curve(lambda step: 5.0, noise=1e-6)) == 1100
    assert first_bark(curve(lambda step: 5.0 + 0.001 * step, noise=1e-6)) == 1100
    assert all(first_bark(curve(lambda step: 5.0, seed=seed)) for seed in range(10))


def test_a_loss_that_falls_slowly_within_its_noise_is_none():
    """Three percent in 500 steps, with batches that differ by 15 %."""
    fall = [curve(lambda step: 5.0 * 0.97 ** (step / 500), seed=seed) for seed in range(20)]
    assert [first_bark(rows) for rows in fall] == [None] * 20


def test_a_loss_that_once_fell_gets_other_advice():
    def advise(loss_at):
        return alarms.flat_loss(curve(loss_at, noise=1e-6), CONTEXT)

    said = advise(lambda step: 5.0 if step < 700 else 4.7)
    assert "too high by now" in said and said.endswith("--model_dir=AM-rate0.0005 --learning_rate=0.0005")
    said = advise(lambda step: 5.0 if step < 700 else 4.8)
    assert "and hardly before" in said and said.endswith("--overfit_batches=1")


def test_at_the_threshold_of_the_fall():
    def fell(share):
        rows = curve(lambda step: 5.0 if step <= 600 else 5.0 * (1 - share), steps=1100, noise=0.0)
        return alarms.flat_loss(rows, CONTEXT) is None

    assert not fell(0.0019) and fell(0.0021)


@pytest.mark.parametrize(
    "figures", [{"token-error-rate": 0.1}, {"learning-rate": 0.00019}, {"blank-share": 0.99}]
)
def test_a_flat_loss_at_the_end_or_on_the_plateau_is_none(figures):
    assert first_bark(curve(lambda step: 0.4, **figures)) is None


@pytest.mark.parametrize("patience", [100, 200, 500])
def test_a_real_healthy_training_passes(patience):
    context = CONTEXT._replace(
        warmup_steps=80, max_steps=800, peak_rate=healthy_course.LEARNING_RATE, constant_loss_steps=patience
    )
    rows = healthy_course.make_readings()
    for count in range(1, len(rows) + 1):
        assert bark(rows[:count], context) == [], rows[count - 1].step


def test_the_same_training_that_never_leaves_the_blanks_does_not():
    context = CONTEXT._replace(warmup_steps=80, max_steps=800, constant_loss_steps=200)
    rows = healthy_course.make_readings()
    stuck = [*rows[:7], *(row._replace(figures=rows[0].figures) for row in rows[7:])]
    assert "all-blank" in bark(stuck[:30], context)


def test_every_sentence_ends_with_a_command_that_there_is():
    all_rows = [repeat({**HEALTHY, **bad}) for _, bad, _, _ in THRESHOLDS]
    all_rows += [repeat(HEALTHY, label_form=form) for form in ("one-hot", "equal")]
    all_rows += [[readings.Reading(20, {}, (3.25,) * 20)], curve(lambda step: 5.0)]
    all_rows += [curve(lambda step: 5.0 if step < 700 else 4.0)]
    sentences = [rule(rows, CONTEXT) for rows in all_rows for rule in alarms.RULES.values()]
    gap = [
        readings.Evaluation(step, {"token-error-rate": 0.1}, {"token-error-rate": 0.9})
        for step in (7000, 8000)
    ]
    forced = [row._replace(dev={**row.dev, "teacher-forced-error-rate": 0.1}) for row in gap]
    sentences += [dev_alarms.dev_gap(gap, CONTEXT), dev_alarms.decoding_gap(forced, CONTEXT)]
    broken = [readings.Evaluation(8000, {}, {"length-ratio": 0.0, "avg-loss": math.nan})]
    sentences += [dev_alarms.nan_loss(broken, CONTEXT), dev_alarms.nothing_written(broken, CONTEXT)]
    said = [sentence for sentence in sentences if sentence]
    assert len(said) == 16
    commands = {sentence: shlex.split(sentence[sentence.index("python -m ") :])[2:] for sentence in said}
    asked = {}
    for sentence, (module, *flags) in commands.items():
        assert sentence.count("python -m ") == 1 and "\n" not in sentence and math.isfinite(len(sentence))
        asked.setdefault(module, {})[sentence] = flags
    answers = program_flags.ask(asked)
    parsed = {name: answer for module in answers.values() for name, answer in module["parsed"].items()}
    assert [answer for answer in parsed.values() if answer.get("words") != []] == []
