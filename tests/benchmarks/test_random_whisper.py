"""Random weights have the layout of the published ones."""

import numpy as np
import pytest
import small_whisper

from benchmarks.pretrained import random_whisper
from estimator_asr.pretrained import encoder_weights


def test_sizes_of_base():
    sizes = random_whisper.make_sizes()
    assert (sizes.layers, sizes.units, sizes.inner_units, sizes.heads) == (6, 512, 2048, 8)


def test_the_encoder_reads_what_is_written(tmp_path):
    sizes = random_whisper.make_sizes(layers=3, units=16)
    encoder, tensors = encoder_weights.read(random_whisper.write(str(tmp_path / "whisper"), sizes))
    assert (encoder.layers, encoder.units, encoder.heads, encoder.num_mel_bins) == (3, 16, 1, 80)
    expected = small_whisper.make_tensors()
    assert sorted(tensors) == sorted(expected)
    assert all(value.dtype == np.float16 and np.isfinite(value).all() for value in tensors.values())
    assert tensors["conv2.weight"].shape == (16, 16, 3)
    assert float(tensors["layers.2.fc2.weight"].std()) == pytest.approx(64**-0.5, rel=0.1)
    np.testing.assert_array_equal(tensors["embed_positions.weight"], expected["embed_positions.weight"])
