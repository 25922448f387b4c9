from __future__ import annotations

import itertools

from estimator_asr.inputs import buckets


def padded_volume(length_counts, ends):
    return sum(count * min(end for end in ends if end >= length) for length, count in length_counts.items())


def test_plan_separates_the_lengths_where_padding_costs_most():
    assert buckets.plan({1: 10, 2: 10, 9: 10, 10: 10}, 2) == (2, 10)
    assert buckets.plan({1: 10, 2: 10, 9: 10, 10: 10}, 1) == (10,)


def test_plan_finds_the_cheapest_of_all_choices():
    counts = {3: 7, 4: 1, 8: 30, 9: 2, 15: 4, 16: 9, 40: 1}
    choices = itertools.combinations(sorted(counts)[:-1], 2)
    cheapest = min(padded_volume(counts, (*choice, 40)) for choice in choices)
    assert padded_volume(counts, buckets.plan(counts, 3)) == cheapest


def test_plan_needs_no_more_buckets_than_lengths():
    assert buckets.plan({5: 3, 7: 1}, 12) == (5, 7)


def test_plan_of_very_many_lengths_covers_the_longest():
    ends = buckets.plan({length: 1 + length % 3 for length in range(50, 1050)}, 8)
    assert len(ends) == 8 and ends[-1] == 1049 and list(ends) == sorted(ends)


def test_batch_size_fills_the_budget_and_is_at_least_one():
    assert buckets.batch_size(100, 1000) == 10
    assert buckets.batch_size(101, 1000) == 9
    assert buckets.batch_size(2000, 1000) == 1
    assert buckets.batch_size(0, 1000) == 1000


def test_batches_per_epoch_counts_small_last_batches():
    # Up to 2: 20 utterances in batches of 8, so 3; up to 10: 20 in batches of 10, so 2.
    assert buckets.batches_per_epoch({1: 10, 2: 10, 9: 10, 10: 10}, (2, 10), (8, 10)) == 5


def test_count_is_how_many_utterances_a_bucket_has():
    assert buckets.count({1: 4, 5: 2, 6: 1, 9: 3}, (5, 9)) == [6, 4]
