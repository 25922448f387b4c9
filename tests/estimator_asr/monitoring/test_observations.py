import shlex

import alarm_cases

from estimator_asr.monitoring import observations


def observe(*steps):
    return observations.Observations(alarm_cases.TRAINING, steps)


def test_last_returns_a_metric_only_if_enough_observations_have_it():
    observed = observe(*(observations.ObservedStep(10 * i, {"a": float(i)}) for i in (1, 2, 3)))
    assert observed.last("a", 2) == [2.0, 3.0]
    assert observed.last("a", 2, after=10) == [2.0, 3.0]
    assert observed.last("a", 2, after=20) == []
    assert observed.last("b", 2) == [] and observe().last("a", 1) == []


def test_means_are_of_the_last_five_and_of_the_metrics_that_all_have():
    metrics = [{"a": float(step)} for step in range(8)] + [{"a": 8.0, "b": 1.0}]
    assert observations.mean_metrics(metrics) == {"a": (4 + 5 + 6 + 7 + 8) / 5}
    assert observations.mean_metrics([]) == {}


def test_windows_are_as_short_as_the_number_of_losses_allows():
    pairs = ((2, 1.0), (4, 3.0), (6, 5.0))
    steps = [observations.ObservedStep(step, {}, (loss, loss)) for step, loss in pairs]
    for num_losses in (3, 4):
        assert observations.window_means(steps, num_losses) == [(4, 2.0), (6, 4.0)]
    assert observations.window_means(steps, 5) == [(6, 3.0)] and observations.window_means(steps, 7) == []


def test_settled_step_late_step_and_span_fit_into_short_trainings():
    long = alarm_cases.TRAINING._replace(max_steps=100000)
    assert (long.settled_step, long.late_step, long.span) == (2100, 5100, 5000)
    short = long._replace(max_steps=900)
    assert (short.settled_step, short.late_step, short.span) == (400, 550, 500)


def test_commands_can_be_pasted_whatever_the_directories_are_called():
    training = alarm_cases.TRAINING._replace(model_dir="my models/AM/", data_dir="my data,MORE")
    words = {name: shlex.split(command)[3:] for name, command in training.commands().items()}
    assert words["doctor"] == ["--data_dir=my data,MORE", "--model_dir=my models/AM/"]
    assert words["verify"] == ["--data_dir=my data,MORE"]
    assert words["evaluate"][-2:] == ["--split=dev", "--output_dir=my models/AM-report"]
    assert words["slower"][-2:] == ["--model_dir=my models/AM-rate0.0005", "--learning_rate=0.0005"]


def little(step, **facts):
    training = alarm_cases.TRAINING._replace(steps_per_epoch=50.0, **facts)
    return observations.Observations(training, [observations.ObservedStep(step, {})]).little


def test_fewer_than_5000_utterances_within_ten_epochs_are_too_little_data():
    assert little(249, num_utterances=1000, hours=1.0) == (
        "the model has seen too little data (5.0 epochs of 1,000 utterances, 1.00 hours), so train longer or "
        "on more data first; otherwise "
    )
    assert little(250, num_utterances=1000, hours=1.0) == ""
    assert little(50_000, num_utterances=499) == (
        "the model has seen too little data (1000.0 epochs of 499 utterances), so train on more data first; "
        "otherwise "
    )
    assert little(500, num_utterances=500) == ""


def test_the_epochs_seen_count_to_the_newest_step_or_evaluation():
    training = alarm_cases.TRAINING._replace(num_utterances=500)
    steps = [observations.ObservedStep(number, {}) for number in (3, 9)]
    assert "9.0 epochs of 500" in observations.Observations(training, steps).little
    evaluation = observations.DevEvaluation(10, {}, {})
    assert observations.Observations(training, steps, [evaluation]).little == ""
