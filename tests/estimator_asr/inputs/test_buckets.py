import itertools
import random
from collections import Counter

import pytest

from estimator_asr.inputs import buckets


def draw_lengths(num_utterances: int = 20_000) -> Counter:
    """Returns a histogram of lengths as in read speech: log-normal, median 5.5 s, 2 to 16 s."""
    rng = random.Random(0)
    return Counter(min(max(round(rng.lognormvariate(6.3, 0.45)), 200), 1600) for _ in range(num_utterances))


def simulate(length_counts, bucket_ends, batch_sizes, num_replicas: int) -> float:
    """Returns the fraction of the replicas' time that is spent on utterances, not on waiting."""
    used = taken = 0
    begin = 0
    for end, size in zip(bucket_ends, batch_sizes):
        left = sum(count for length, count in length_counts.items() if begin < length <= end)
        begin = end
        while left > 0:
            rows = min(size, left)
            left -= rows
            most = len(range(0, rows, num_replicas))  # the first replica has the most rows
            used += rows * end
            taken += num_replicas * most * end
    return used / taken


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


def test_there_are_no_more_buckets_than_lengths():
    assert buckets.choose_ends({5: 3, 7: 1}, 12) == (5, 7)


def test_buckets_of_very_many_lengths_cover_the_longest():
    ends = buckets.choose_ends({length: 1 + length % 3 for length in range(50, 1050)}, 8)
    assert len(ends) == 8 and ends[-1] == 1049 and list(ends) == sorted(ends)


def test_batches_fill_the_budget_and_hold_at_least_one_utterance():
    counts = {1: 10, 2: 10, 9: 10, 10: 10}
    # Bucket 2 has 20 utterances in batches of 8, 8 and 4; bucket 10 has 20 batches of one utterance.
    assert buckets.choose(counts, 2, budget=17) == buckets.Bucketing((2, 10), (8, 1), 23)
    assert buckets.choose(counts, 2, budget=5) == buckets.Bucketing((2, 10), (2, 1), 30)


def test_batches_are_multiples_of_the_replicas_within_the_budget():
    counts = {1: 10, 2: 10, 9: 10, 10: 10}
    # Eight utterances of length 2 fit, rounded down to 6 for 3 replicas; of length 10, only one fits.
    assert buckets.choose(counts, 2, 17, num_replicas=3) == buckets.Bucketing((2, 10), (6, 1), 24)
    assert buckets.choose(counts, 2, 17, num_replicas=1) == buckets.choose(counts, 2, 17)
    assert buckets.choose(counts, 2, 17, num_replicas=9) == buckets.choose(
        counts, 2, 17
    )  # 8 is below 9 and not rounded
    assert buckets.choose(counts, 2, 600, num_replicas=8).batch_sizes == (20, 20)  # all in one batch


@pytest.mark.parametrize(
    "num_replicas, former, now", [(2, 0.986, 0.999), (4, 0.943, 0.998), (8, 0.858, 0.997)]
)
def test_replicas_rarely_wait_for_one_with_more_utterances(num_replicas, former, now):
    """The fraction of the replicas' time that they spend on real frames, with batches of 16,000 frames."""
    lengths = draw_lengths()
    for count, expected in ((1, former), (num_replicas, now)):
        bucketing = buckets.choose(lengths, 12, 16_000, count)
        assert all(rows * end <= 16_000 for rows, end in bucketing.shapes)
        used = simulate(lengths, bucketing.bucket_ends, bucketing.batch_sizes, num_replicas)
        assert used == pytest.approx(expected, abs=0.001)


def test_no_batch_size_exceeds_the_number_of_utterances_in_the_bucket():
    assert buckets.choose({0: 3}, 1, budget=1000) == buckets.Bucketing((0,), (3,), 1)


def test_padding_fraction_counts_what_buckets_add():
    counts = {1: 4, 2: 4, 3: 4}
    assert buckets.padding_fraction(counts, (3,)) == pytest.approx(1 - 24 / 36)
    assert buckets.padding_fraction(counts, (1, 2, 3)) == 0


def test_count_returns_the_utterances_in_each_bucket():
    assert buckets.count({1: 4, 5: 2, 6: 1, 9: 3}, (5, 9)) == [6, 4]
