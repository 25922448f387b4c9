import numpy as np
import pytest

from estimator_asr.scoring import edit_distance, error_rate


def edits(errors, lengths):
    return [edit_distance.Edits(e, 0, 0, n) for e, n in zip(errors, lengths)]


def width(rate):
    low, high = rate.confidence_interval
    return high - low


def test_rate_is_the_ratio_of_sums_not_the_mean_of_ratios():
    pairs = [edit_distance.Edits(1, 0, 0, 1), edit_distance.Edits(0, 2, 1, 9)]
    rate = error_rate.measure(pairs, [["a", "b"]])
    assert rate.rate == pytest.approx(4 / 10)
    counts = (rate.errors, rate.substitutions, rate.insertions, rate.deletions, rate.reference_length)
    assert counts == (4, 1, 2, 1, 10)


def test_rate_over_one_is_not_clamped():
    rate = error_rate.measure([edit_distance.Edits(1, 3, 0, 1)] * 2, [["a", "b"]])
    assert rate.rate == 4.0
    assert rate.confidence_interval == (4.0, 4.0)


def test_empty_reference_counts_its_insertions():
    pairs = [edit_distance.Edits(0, 2, 0, 0), edit_distance.Edits(0, 0, 0, 8)]
    rate = error_rate.measure(pairs, [["a", "b"]])
    assert rate.rate == pytest.approx(2 / 8)
    assert np.isfinite(rate.confidence_interval).all()


@pytest.mark.parametrize("pairs", [[], [edit_distance.Edits(0, 2, 0, 0)]])
def test_no_reference_token_has_no_rate(pairs):
    rate = error_rate.measure(pairs, [["a"] * len(pairs)])
    assert (rate.rate, rate.confidence_interval) == (None, None)


def test_same_seed_same_interval():
    pairs, names = edits([0, 1, 2, 0, 1] * 20, range(3, 103)), [range(100)]
    assert error_rate.measure(pairs, names, seed=7) == error_rate.measure(pairs, names, seed=7)
    assert error_rate.measure(pairs, names, seed=7) != error_rate.measure(pairs, names, seed=8)


def test_one_cluster_gives_no_interval():
    assert error_rate.measure(edits([1, 2], [5, 5]), [["a", "a"], ["x", "x"]]).confidence_interval is None


def test_utterances_without_tokens_are_not_clusters():
    """Only one of 51 utterances has a hotword, so nothing can be resampled."""
    edits = [edit_distance.Edits(1, 0, 0, 2), *[edit_distance.Edits(0, 0, 0, 0)] * 50]
    found = error_rate.measure(edits, [list(range(51))])
    assert found.rate == 0.5 and found.confidence_interval is None


def test_ten_identical_speakers_do_not_narrow_the_interval():
    errors = [0, 0, 1, 3, 0, 2, 1, 0]
    sentences = list(range(8))
    one = error_rate.measure(edits(errors, [5] * 8), [["s"] * 8, sentences])
    speakers = np.repeat(np.arange(10), 8)
    ten = error_rate.measure(edits(errors * 10, [5] * 80), [speakers, sentences * 10])
    naive = error_rate.measure(edits(errors * 10, [5] * 80), [np.arange(80)])
    assert width(ten) == pytest.approx(width(one), rel=0.1)
    assert width(naive) < 0.5 * width(one)


def test_independent_utterances_give_the_binomial_interval():
    errors = np.random.default_rng(0).binomial(1, 0.3, 2000)
    rate = error_rate.measure(edits(errors, [1] * 2000), [np.arange(2000)])
    assert width(rate) == pytest.approx(2 * 1.96 * np.sqrt(0.3 * 0.7 / 2000), rel=0.1)


def test_interval_covers_the_true_rate_when_speakers_and_sentences_differ():
    rng = np.random.default_rng(1)
    speakers, sentences = (grid.ravel() for grid in np.meshgrid(np.arange(12), np.arange(40)))
    covered = 0
    for _ in range(60):
        chance = 0.3 + rng.uniform(-0.1, 0.1, 12)[speakers] + rng.uniform(-0.2, 0.2, 40)[sentences]
        rate = error_rate.measure(edits(rng.binomial(10, chance), [10] * 480), [speakers, sentences])
        low, high = rate.confidence_interval
        covered += low <= 0.3 <= high
    assert covered >= 0.88 * 60


def test_the_interval_without_errors_follows_the_rule_of_three():
    rate = error_rate.measure(edits([0] * 100, [6] * 100), [np.arange(100)])
    assert rate.confidence_interval == (0.0, pytest.approx(3 / 600))
    read_twice = error_rate.measure(edits([0] * 100, [6] * 100), [np.arange(100) // 2])
    assert read_twice.confidence_interval == (0.0, pytest.approx(3 / 300))


@pytest.mark.parametrize(
    ("degrees", "expected", "tolerance"),
    [(1, 12.7062, 0.12), (2, 4.3027, 0.01), (4, 2.7764, 1e-3), (9, 2.2622, 1e-4), (99, 1.9842, 1e-4)],
)
def test_quantiles_of_t_equal_published_tables(degrees, expected, tolerance):
    assert error_rate.t_quantile(0.975, degrees) == pytest.approx(expected, rel=tolerance)


def test_ten_clusters_have_the_quantile_of_nine_degrees_and_the_unbiased_deviation():
    errors, lengths = np.array([0, 1, 2, 3, 4] * 2), np.full(10, 10)
    spread = float(np.std(errors)) / 10**0.5 / 10  # exact value for the resampled rates
    found = error_rate.num_deviations(0.95, errors, lengths, [np.arange(10)], spread)
    assert found == pytest.approx(2.2622 * (10 / 9) ** 0.5, rel=1e-4)


def test_variances_of_speakers_and_sentences_add_up():
    """If errors differ only by speaker and by sentence, the variance is the sum of both variances."""
    speaker, sentence = (grid.ravel() for grid in np.meshgrid(np.arange(20), np.arange(20), indexing="ij"))
    errors, lengths = (speaker % 2) + sentence // 10, np.full(400, 10)
    both, one = (
        error_rate.num_deviations(0.95, errors, lengths, clusters, spread=1e-9)
        for clusters in ([speaker, sentence], [speaker])
    )
    assert both == pytest.approx(2**0.5 * one, rel=0.03)


@pytest.mark.parametrize("count", [10, 10_000])
def test_resamples_wider_than_the_standard_error_are_not_expanded(count):
    errors, lengths = np.arange(count) % 5, np.full(count, 10)
    found = error_rate.num_deviations(0.95, errors, lengths, [np.arange(count)], spread=1.0)
    assert found == pytest.approx(1.96, abs=1e-3)


def test_identical_clusters_have_an_interval_of_width_0():
    errors, lengths, clusters = np.full(8, 2), np.full(8, 10), [np.arange(8)]
    assert error_rate.interval(error_rate.resample(errors, lengths, clusters)) == (0.2, 0.2)


def test_a_difference_of_rates_with_equal_lengths_is_the_rate_of_the_difference():
    rng = np.random.default_rng(0)
    lengths, labels = rng.integers(1, 9, 60), [np.arange(60) % 7, np.arange(60)]
    a, b = rng.binomial(lengths, 0.4), rng.binomial(lengths, 0.3)
    expected = error_rate.resample(b - a, lengths, labels)
    resampled = error_rate.resample_difference((a, lengths), (b, lengths), labels)
    np.testing.assert_allclose(resampled.rates, expected.rates, atol=1e-12)
    assert resampled.num_deviations == pytest.approx(expected.num_deviations)


def test_a_difference_without_clusters_or_lengths_is_not_resampled():
    ones = (np.ones(3), np.ones(3))
    assert error_rate.resample_difference(ones, ones, [["s"] * 3]) is None
    assert error_rate.resample_difference(ones, (np.zeros(3), np.zeros(3)), [range(3)]) is None


@pytest.mark.long
def test_the_interval_covers_a_difference_of_rates_whose_lengths_differ():
    """The systems' errors are correlated, as if both systems recognised the same utterances."""
    rng, covered, trials = np.random.default_rng(0), 0, 200
    for _ in range(trials):
        lengths = rng.integers(2, 7, (2, 60))
        difficulty = rng.uniform(0.1, 0.9, 60)
        a, b = (rng.binomial(lengths[0], difficulty), rng.binomial(lengths[1], difficulty * 0.8))
        resampled = error_rate.resample_difference((a, lengths[0]), (b, lengths[1]), [np.arange(60)])
        low, high = error_rate.interval(resampled)
        covered += low <= -0.1 <= high  # the mean difficulty is 0.5
    assert 0.9 <= covered / trials <= 0.99
