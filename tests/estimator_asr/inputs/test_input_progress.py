from __future__ import annotations

import pathlib

import numpy as np
import pytest

from estimator_asr.inputs import input_progress, splits
from tfrecord_builder import errors

PLAN = splits.BatchPlan((10,), (4,), 10)  # 40 utterances
LARGE = splits.BatchPlan((10,), (8,), 5)


def never(epoch, taken):
    raise AssertionError("asked for the rest of an epoch")


def go_on(history, step, plan=PLAN, order="a", batches_per_step=1, count=never):
    return input_progress.continue_at(
        history,
        step,
        plan=plan,
        order_sha256=order,
        batches_per_step=batches_per_step,
        count_batches=count,
    )


def test_one_plan_is_a_matter_of_division():
    history = go_on([], 0)
    assert history == [input_progress.Stretch(0, "a", PLAN, 1, 0.0, 0, (), 10)]
    assert history[0].position(0) == (0, (), 0)
    assert history[0].position(9) == (0, (), 9)
    assert history[0].position(23) == (2, (), 3) and history[0].epochs_at(25) == 2.5
    assert go_on(history, 23) == history


def test_several_batches_a_step():
    (stretch,) = go_on([], 0, batches_per_step=4)
    assert stretch.position(3) == (1, (), 2) and stretch.epochs_at(3) == 1.2


def test_without_a_history_all_steps_are_of_this_plan():
    (stretch,) = go_on([], 23)
    assert stretch.position(23) == (2, (), 3)


def test_larger_batches_begin_with_what_is_left_of_the_epoch():
    asked = []

    def count(epoch, taken):
        asked.append((epoch, taken))
        return 4

    history = go_on(go_on([], 0), 13, LARGE, count=count)
    taken = (input_progress.Taken(PLAN, 3),)
    assert asked == [(1, taken)]  # 28 utterances are left: four batches of up to 8
    assert history[1] == input_progress.Stretch(13, "a", LARGE, 1, 1.3, 1, taken, 4)
    assert history[1].position(13) == (1, taken, 0) and history[1].position(13).index == 3
    assert history[1].position(16) == (1, taken, 3) and history[1].position(16).index == 6
    assert history[1].position(17) == (2, (), 0) and history[1].position(23) == (3, (), 1)
    assert go_on(history, 16, LARGE) == history


def test_a_second_change_in_one_epoch_remembers_both():
    history = go_on(go_on([], 0), 3, LARGE, count=lambda *_: 4)
    third = go_on(history, 5, count=lambda *_: 3)[-1]
    assert third.taken == (input_progress.Taken(PLAN, 3), input_progress.Taken(LARGE, 2)) and third.epoch == 0
    assert third.epochs == pytest.approx(0.3 + 2 / 4 * 0.7)  # half of what was left of the epoch


def test_epochs_are_whole_where_an_epoch_ends_whatever_its_batches():
    history = go_on(go_on([], 0), 13, LARGE, count=lambda *_: 4)
    assert [history[1].epochs_at(step) for step in (13, 17, 22)] == pytest.approx([1.3, 2, 3])
    assert [history[1].step_at(epochs) for epochs in (1.3, 2, 3)] == pytest.approx([13, 17, 22])
    assert [history[0].step_at(epochs) for epochs in (0.5, 1, 2.5)] == pytest.approx([5, 10, 25])


def test_a_change_at_the_end_of_an_epoch_needs_nothing_of_it():
    second = go_on(go_on([], 0), 20, LARGE)[-1]
    assert (second.epoch, second.taken, second.rest) == (2, (), 5)


def test_other_data_begin_with_a_new_epoch():
    second = go_on(go_on([], 0), 13, order="b")[-1]
    assert (second.epoch, second.taken, second.rest, second.epochs) == (2, (), 10, 2.0)


def test_a_step_back_forgets_what_came_after():
    history = go_on(go_on([], 0), 13, LARGE, count=lambda *_: 4)
    assert go_on(history, 12) == history[:1]
    again = go_on(history, 13, order="b", plan=PLAN)
    assert [stretch.first_step for stretch in again] == [0, 13] and again[1].order_sha256 == "b"


def test_find_is_the_inverse_of_position():
    history = go_on(go_on([], 0), 13, LARGE, count=lambda *_: 4)
    for step in (0, 9, 10, 12):
        place = history[0].position(step)
        assert input_progress.find(history, place.epoch, place.index, PLAN) == (PLAN, place)
    for step in (13, 16, 17, 30):
        place = history[1].position(step)
        assert input_progress.find(history, place.epoch, place.index, PLAN) == (LARGE, place)
    assert input_progress.find([], 3, 4, PLAN) == (PLAN, input_progress.Position(3, (), 4))


def test_left_over_by_hand():
    # Buckets up to 5 and 10, two utterances each: places (0, 2), (1, 3), (4, 6), then the short 5 alone.
    plan = splits.BatchPlan((5, 10), (2, 2), 4)
    lengths = np.array([1, 9, 2, 8, 7, 3, 6])
    left = [
        np.flatnonzero(input_progress.left_over(lengths, [input_progress.Taken(plan, n)])).tolist()
        for n in range(5)
    ]
    assert left == [[0, 1, 2, 3, 4, 5, 6], [1, 3, 4, 5, 6], [4, 5, 6], [5], []]
    twice = [input_progress.Taken(plan, 1), input_progress.Taken(splits.BatchPlan((10,), (3,), 3), 1)]
    assert np.flatnonzero(input_progress.left_over(lengths, twice)).tolist() == [5, 6]


def test_the_history_comes_back_from_the_disk(tmp_path):
    history = go_on(go_on([], 0), 13, LARGE, count=lambda *_: 4)
    assert input_progress.load(str(tmp_path)) == []
    input_progress.save(str(tmp_path), history)
    assert input_progress.load(str(tmp_path)) == history
    assert [path.name for path in tmp_path.iterdir()] == ["input_progress.json"]


@pytest.mark.parametrize("text", ["{", '{"a": 1}', '[{"first_step": "x"}]', "[3]"])
def test_a_history_that_is_none_is_refused(tmp_path, text):
    pathlib.Path(tmp_path, "input_progress.json").write_text(text)
    with pytest.raises(errors.UserError, match="input_progress.json: is not a list of stretches of training"):
        input_progress.load(str(tmp_path))
