"""Default layers of a pretrained encoder, and the number of values per output frame."""

import pytest

from tfrecord_builder.audio import pretrained_encoder


@pytest.mark.parametrize(
    "last, chosen", [(1, (1,)), (2, (2,)), (3, (2, 3)), (4, (3, 4)), (6, (4, 6)), (32, (22, 32))]
)
def test_default_layers_are_two_thirds_of_the_last_and_the_last(last, chosen):
    assert pretrained_encoder.choose_layers(last) == chosen


def test_num_bins_counts_two_log_mel_frames_and_each_layer():
    base = pretrained_encoder.PretrainedEncoder("whisper", 80, 512, 2048, 8, 6, "")
    assert pretrained_encoder.Applied(base, (2, 4, 6)).num_bins == 2 * 80 + 3 * 512
