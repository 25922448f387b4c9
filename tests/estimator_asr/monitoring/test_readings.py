from __future__ import annotations

import shlex

import alarm_cases
import pytest

from estimator_asr.monitoring import readings


def read(step, **figures):
    return readings.Reading(step, {tag.replace("_", "-"): value for tag, value in figures.items()})


@pytest.mark.parametrize(
    "ids, num_ids, said",
    [
        ([[0, 0, 1, 0, 0], [0, 1, 0, 0, 0]], [5, 5], "one-hot"),
        ([[0, 0, 1, 0, 0], [0, 1, 1, 0, 0]], [5, 5], ""),  # a row with two ones is text of two tokens
        ([[0, 0, 1, 0, 0], [0, 0, 0, 0, 2]], [5, 5], ""),
        ([[7, 7, 7, 7, 7], [7, 7, 7, 7, 7]], [5, 5], "equal"),
        ([[7, 7, 7, 7, 7], [7, 7, 7, 7, 0]], [5, 4], ""),  # nine labels are too few to judge
        ([[7, 7, 7, 7, 7, 7], [7, 7, 7, 7, 0, 0]], [6, 4], "equal"),  # what is padding does not count
        ([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]], [5, 5], ""),
        ([[7] * 12], [12], ""),  # one utterance may say one thing
        ([[0]], [0], ""),
    ],
)
def test_the_form_of_labels(ids, num_ids, said):
    assert readings.label_form(ids, num_ids) == said


def test_a_figure_is_given_only_if_enough_readings_after_the_step_have_it():
    rows = [read(10, a=1.0), read(20, a=2.0), read(30, a=3.0)]
    assert readings.last(rows, "a", 2) == [2.0, 3.0]
    assert readings.last(rows, "a", 2, after=10) == [2.0, 3.0]
    assert readings.last(rows, "a", 2, after=20) == []
    assert readings.last(rows, "b", 2) == [] and readings.last([], "a", 1) == []


def test_means_are_of_the_last_five_and_of_what_all_have():
    rows = [read(step, a=float(step)) for step in range(8)] + [read(8, a=8.0, b=1.0)]
    assert readings.mean_figures(rows) == {"a": (4 + 5 + 6 + 7 + 8) / 5}
    assert readings.mean_figures([]) == {}


def test_windows_hold_as_few_readings_as_make_the_steps():
    rows = [readings.Reading(step, {}, (loss, loss)) for step, loss in ((2, 1.0), (4, 3.0), (6, 5.0))]
    assert readings.window_means(rows, 4) == [(4, 2.0), (6, 4.0)]
    assert readings.window_means(rows, 3) == [(4, 2.0), (6, 4.0)]
    assert readings.window_means(rows, 5) == [(6, 3.0)]
    assert readings.window_means(rows, 7) == []


def test_patience_grows_with_the_flag_but_ends_within_the_training():
    context = readings.Context("train", "AM", "DATA", "token-error-rate", 100, 100000, 0.001, 0.002, 500)
    assert (context.settled_step, context.late_step) == (2100, 5100)
    short = context._replace(max_steps=900)
    assert (short.settled_step, short.late_step) == (400, 550)
    assert (context.span, short.span) == (5000, 500)


def test_commands_can_be_pasted_whatever_the_directories_are_called():
    context = alarm_cases.CONTEXT._replace(model_dir="my models/AM/", data_dir="my data,MORE")
    commands = [context.doctor_command, context.evaluate_command, context.slower_command]
    commands += [context.show_command, context.verify_command]
    words = [shlex.split(command)[3:] for command in commands]
    assert words[0] == ["--data_dir=my data,MORE", "--model_dir=my models/AM/"]
    assert words[1][-2:] == ["--split=dev", "--output_dir=my models/AM-report"]
    assert words[2][-2:] == ["--model_dir=my models/AM-rate0.0005", "--learning_rate=0.0005"]
    assert words[3:] == [["--data_dir=my data"], ["--data_dir=my data,MORE"]]
