"""Which blocks of an encoder are read, and how wide that makes a record."""

from __future__ import annotations

import pytest

from tfrecord_builder.audio import pretrained_encoder


@pytest.mark.parametrize(
    "last, chosen",
    [(1, (1,)), (2, (2,)), (3, (2, 3)), (4, (3, 4)), (6, (4, 6)), (32, (22, 32))],
)
def test_the_upper_blocks_are_read(last, chosen):
    assert pretrained_encoder.choose_layers(last) == chosen


def test_a_row_holds_two_frames_and_each_block():
    base = pretrained_encoder.PretrainedEncoder("whisper", 80, 512, 2048, 8, 6, "")
    assert pretrained_encoder.Applied(base, (2, 4, 6)).num_bins == 2 * 80 + 3 * 512
