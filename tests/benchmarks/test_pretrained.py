"""The benchmark of Whisper's encoder does the same work on both sides, and says what it found."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import numpy as np
import paths
import pytest

from benchmarks import comparison
from benchmarks.pretrained import __main__ as pretrained
from benchmarks.pretrained import ours as pretrained_ours
from benchmarks.pretrained import random_whisper

pytestmark = pytest.mark.slow

CONFIG = pretrained.BenchmarkConfig(
    whisper_layers=3,
    whisper_units=64,
    encoder_layers=1,
    encoder_units=16,
    batch_size=3,
    num_frames=41,
    max_tokens=4,
    num_classes=9,
    rounds=2,
)
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="benchmarks/requirements.txt is not installed"
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    sizes = random_whisper.make_sizes(CONFIG.whisper_layers, CONFIG.whisper_units)
    return random_whisper.write(str(tmp_path_factory.mktemp("whisper")), sizes)


def make_step(weights, directory, batch, reads_outputs):
    applied = pretrained_ours.read_applied(weights)
    model = pretrained_ours.make_model(CONFIG.acoustic(applied), applied, reads_outputs, 8, str(directory))
    return pretrained_ours.open_step(model, batch, None if reads_outputs else weights)


def test_the_model_is_that_of_the_flag_file():
    with open(paths.ROOT / "flags" / "whisper" / "acoustic.flags", encoding="utf-8") as file:
        flags = dict(line.strip()[2:].split("=") for line in file if line.startswith("--") and "=" in line)
    acoustic = pretrained.BenchmarkConfig().acoustic(None)
    for name in ("encoder", "encoder_layers", "encoder_units", "decoder_layers"):
        assert str(getattr(acoustic, name)).removesuffix(".0") == flags[name], name


def test_batches_of_long_utterances_hold_as_much_speech():
    config = pretrained.BenchmarkConfig()
    assert config.make_batch(170, 80).fbank.shape == (23, 170, 80)
    assert config.make_batch(85, 1696).fbank.shape == (23, 85, 1696)
    assert config.make_batch(1000, 80).fbank.shape == (3, 1000, 80)  # 23 x 170 = 3910


@pytest.mark.parametrize("reads_outputs", [True, False])
def test_our_step_learns_and_the_encoder_stays(weights, tmp_path, reads_outputs):
    batch = CONFIG.make_batch(21, 2 * 80 + 2 * 64) if reads_outputs else CONFIG.make_batch(41, 80)
    step = make_step(weights, tmp_path, batch, reads_outputs)
    losses, norms = zip(*(step.step() for _ in range(20)))
    assert losses[-1] < losses[0] and min(norms) > 0
    names = list(step.weights())
    assert "acoustic/encoder/input_norm/scale" in names
    assert not [name for name in names if name.startswith("acoustic/encoder/pretrained")]


@needs_torch
@pytest.mark.parametrize("reads_outputs", [True, False])
def test_both_steps_have_the_same_loss_and_gradient_norm(weights, tmp_path, reads_outputs, capsys):
    sides = pretrained.make_step_sides(CONFIG, weights, str(tmp_path), reads_outputs)
    found = comparison.compare(sides, "stored, ")
    assert [bar.what for bar in found] == [
        "stored, loss, apart by millionths",
        "stored, gradient norm, apart by millionths",
    ]
    assert all(bar.is_met for bar in found), [str(bar) for bar in found]


@needs_torch
def test_both_encoders_have_the_same_outputs(weights):
    batch = CONFIG.make_batch(CONFIG.num_frames, 80)
    sides = pretrained.make_encode_sides(weights, batch)
    for side in sides.values():
        outputs = side.encode()
        assert [row.shape for row in outputs] == [(-(-n // 2), 2 * 80 + 2 * 64) for n in batch.num_frames]
        assert {row.dtype for row in outputs} == {np.dtype(np.float16)}
    bar = pretrained.compare_outputs(sides, "encode, ")
    assert bar.is_met and bar.what == "encode, outputs, apart by millionths"


@needs_torch
def test_table_and_bars(weights, tmp_path, capsys):
    found = pretrained.compare_and_time_steps(CONFIG, weights, str(tmp_path))
    lines = capsys.readouterr().out.splitlines()
    assert [line[:32].strip() for line in lines[-4:]] == [
        "training step, stored, ours",
        "training step, stored, PyTorch",
        "training step, in graph, ours",
        "training step, in graph, PyTorch",
    ]
    assert [(bar.what, bar.maximum) for bar in found[-2:]] == [
        ("training step, stored, times what PyTorch takes", 0.9),
        ("training step, in graph, times what PyTorch takes", 0.9),
    ]


def test_help_teaches():
    command = [sys.executable, "-m", "benchmarks.pretrained", "--help"]
    said = subprocess.run(command, cwd=str(paths.ROOT), capture_output=True, text=True).stdout
    for words in ("--num_frames=1000 --batch_size=4", "the frozen encoder in the graph", "--rounds: times"):
        assert words in said
