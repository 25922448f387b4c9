"""The benchmark of the training step does the same work on both sides, and says what it found."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import numpy as np
import paths
import pytest
import tensorflow as tf

from benchmarks import comparison
from benchmarks.train_step import __main__ as train_step
from benchmarks.train_step import ours as train_step_ours
from benchmarks.train_step import work as train_step_work
from estimator_asr.experiment import config as config_lib

pytestmark = pytest.mark.slow

ROOT = str(paths.ROOT)
CONFIG = train_step.BenchmarkConfig(
    encoder_layers=1,
    encoder_units=16,
    batch_size=3,
    num_frames=40,
    max_tokens=4,
    num_classes=9,
    rounds=2,
    estimator_steps=2,
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
def batch():
    return train_step_work.make_batch(
        CONFIG.batch_size, CONFIG.num_frames, CONFIG.num_classes - 1, CONFIG.max_tokens, seed=1
    )


@pytest.fixture
def model(tmp_path):
    return train_step_ours.make_model(CONFIG.acoustic(), CONFIG.num_classes - 1, str(tmp_path))


def test_labels_of_the_batch_have_an_alignment_and_padding_is_zero(batch):
    assert batch.fbank.shape == (3, 40, 80) and batch.num_frames.max() == 40 and batch.num_frames.min() >= 36
    for fbank, frames, ids, count in zip(batch.fbank, batch.num_frames, batch.token_ids, batch.num_tokens):
        assert np.all(fbank[frames:] == 0) and np.all(fbank[:frames] != 0)
        assert np.all(ids[count:] == 0) and ids.min() >= 0 and ids.max() < 8
        assert 3 <= count <= 4 and np.all(np.diff(ids[:count]) != 0)  # at most 4 labels in 9 vectors or more


def test_operations_are_counted():
    """One utterance of 8 frames and 4 bins; counted by hand."""
    batch = train_step_work.Batch(np.zeros([1, 8, 4]), np.array([8]), np.zeros([1, 2]), np.array([2]))
    config = config_lib.AcousticConfig(
        encoder_layers=1,
        encoder_units=10,
        encoder_inner_units=20,
        attention_heads=1,
        conv_kernel_size=3,
        subsampling_channels=5,
    )
    convolutions = 4 * 2 * 9 * 5 + 2 * 1 * 9 * 5 * 5
    project = 2 * (1 * 5) * 10
    weights_of_a_block = 2 * (10 * 20 + 20 * 10) + 4 * 10 * 10 + (10 * 20 + 3 * 10 + 10 * 10)
    block = 2 * weights_of_a_block + 2 * (2 * 2 * 10)  # 2 positions; scores and weighted sums
    weights_of_decoder = 4 * 10 * 10 + 2 * 10 * 10 + 10 * 20 + 20 * 10
    decoder = 3 * weights_of_decoder + 2 * (2 * 10 * 10) + 2 * (3 * 3 * 10) + 2 * (3 * 2 * 10)
    classes = 2 * 10 * 7 + 3 * 10 * 7
    forwards = convolutions + project + block + decoder + classes
    assert train_step_work.count_operations(config, batch, 7) == 3 * 2 * forwards


def test_our_step_learns(model, batch):
    session = train_step_ours.open_session(model, batch)
    losses, norms = zip(*(session.step() for _ in range(20)))
    assert losses[-1] < losses[0] and min(norms) > 0
    assert session.weights()["acoustic/ctc/class_vectors"].shape == (9, 16)


def test_steps_of_the_estimator_and_bare_ones_take_turns(model, batch, capsys):
    (bar,) = train_step.time_estimator(model, batch, 3)
    assert capsys.readouterr().out.splitlines()[-1].startswith("Estimator ")
    assert (bar.what, bar.maximum) == ("overhead of the Estimator, per cent of a step", 3)
    assert tf.train.latest_checkpoint(model.path).endswith("model.ckpt-14")  # 3 of each, and 4 before


@needs_torch
def test_both_sides_have_the_same_loss_and_gradient_norm(model, batch, capsys):
    found = comparison.compare(train_step.make_sides(model, batch))
    assert [bar.what for bar in found] == ["loss, apart by millionths", "gradient norm, apart by millionths"]
    assert all(bar.is_met for bar in found)
    assert len(capsys.readouterr().out.splitlines()) == 6


@needs_torch
def test_table_and_bars_of_the_sides(model, batch, capsys):
    found = train_step.time_sides(train_step.make_sides(model, batch), CONFIG, batch)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(f"operations per step, {batch.num_frames.sum()} frames")
    assert [line[:18].strip() for line in lines[2:]] == ["ours", "PyTorch", "matmul, ours", "matmul, PyTorch"]
    assert [(bar.minimum, bar.maximum) for bar in found] == [(-np.inf, 1), (45, np.inf)]


def test_help_teaches():
    command = [sys.executable, "-m", "benchmarks.train_step", "--help"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    for words in ("pip install -r benchmarks/requirements.txt", "the faster of the two", "--rounds: steps"):
        assert words in said
