"""The benchmark of the language model does the same work on both sides."""

from __future__ import annotations

import importlib.util
import os

import numpy as np
import pytest

from benchmarks import comparison
from benchmarks.language import __main__ as language
from benchmarks.language import ours as language_ours

pytestmark = pytest.mark.slow

CONFIG = language.BenchmarkConfig(
    batch_size=4, length=6, num_tokens=9, num_characters=20, num_candidates=3, ngram_rows=31, rounds=1
)
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="benchmarks/requirements.txt is not installed"
)


@pytest.fixture(autouse=True)
def keep_cores():
    cores = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cores)


@pytest.fixture
def model():
    return language_ours.make_model(CONFIG.language(), 9, 20, 3)


@pytest.fixture
def batch(model):
    return language_ours.make_batch(model, 4, 6)


def test_labels_are_candidates_and_padding_is_zero(model, batch):
    mask = model.readings.mask(model.tokens, model.characters)
    assert mask[1:].sum(axis=1).max() <= 3 and batch.num_tokens.max() == 6
    for tokens, characters, count in zip(batch.token_ids, batch.character_ids, batch.num_tokens):
        assert mask[tokens[:count], characters[:count]].all() and (tokens[:count] > 0).all()
        assert not tokens[count:].any() and not characters[count:].any()


@needs_torch
def test_both_sides_have_the_same_loss_and_gradient(model, batch):
    ours, peer = language.make_sides(model, batch).values()
    np.testing.assert_allclose(ours.step(), peer.step(), rtol=1e-4)


@needs_torch
def test_bars_and_table(model, batch, capsys):
    sides = language.make_sides(model, batch)
    assert all(bar.is_met for bar in comparison.compare(sides, max_millionths=1000))
    bar = language.time_sides(sides, 1, int(batch.num_tokens.sum()))
    assert bar.what == "step, times what PyTorch takes" and bar.maximum == 1
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[-3:]] == [
        "step",
        "ours",
        "PyTorch",
    ]
