from __future__ import annotations

import itertools

import pytest

from estimator_asr.inputs import buckets


def padded_volume(length_counts, ends):
    return sum(count * min(end for end in ends if end >= length) for length, count in length_counts.items())


def test_buckets_separate_the_lengths_where_padding_costs_most():
    assert buckets.choose_ends({1: 10, 2: 10, 9: 10, 10: 10}, 2) == (2, 10)
    assert buckets.choose_ends({1: 10, 2: 10, 9: 10, 10: 10}, 1) == (10,)


def test_buckets_are_the_cheapest_of_all_choices():
    counts = {3: 7, 4: 1, 8: 30, 9: 2, 15: 4, 16: 9, 40: 1}
    choices = itertools.combinations(sorted(counts)[:-1], 2)
    cheapest = min(padded_volume(counts, (*choice, 40)) for choice in choices)
    assert padded_volume(counts, buckets.choose_ends(counts, 3)) == cheapest


def test_buckets_needs_no_more_buckets_than_lengths():
    assert buckets.choose_ends({5: 3, 7: 1}, 12) == (5, 7)


def test_buckets_of_very_many_lengths_cover_the_longest():
    ends = buckets.choose_ends({length: 1 + length % 3 for length in range(50, 1050)}, 8)
    assert len(ends) == 8 and ends[-1] == 1049 and list(ends) == sorted(ends)


def test_batches_fill_the_budget_and_hold_at_least_one_utterance():
    counts = {1: 10, 2: 10, 9: 10, 10: 10}
    # Up to 2: 20 utterances in batches of 8, so 3 with the small last one; up to 10: 20 alone.
    assert buckets.choose(counts, 2, budget=17) == buckets.Bucketing((2, 10), (8, 1), 23)
    assert buckets.choose(counts, 2, budget=5) == buckets.Bucketing((2, 10), (2, 1), 30)


def test_a_batch_is_no_larger_than_its_bucket():
    assert buckets.choose({0: 3}, 1, budget=1000) == buckets.Bucketing((0,), (3,), 1)


def test_padding_is_what_a_bucket_adds():
    counts = {1: 4, 2: 4, 3: 4}
    assert buckets.padding_fraction(counts, (3,)) == pytest.approx(1 - 24 / 36)
    assert buckets.padding_fraction(counts, (1, 2, 3)) == 0


def test_count_is_how_many_utterances_a_bucket_has():
    assert buckets.count({1: 4, 5: 2, 6: 1, 9: 3}, (5, 9)) == [6, 4]
