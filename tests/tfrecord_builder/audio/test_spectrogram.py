import matplotlib.figure
import numpy as np

from tfrecord_builder.audio import spectrogram

FEATURES = np.linspace(-5, 20, 48 * 80).astype(np.float16).reshape(48, 80)


def test_axes_are_seconds_to_the_right_and_bins_upwards():
    axes = matplotlib.figure.Figure().subplots()
    spectrogram.draw(axes, FEATURES, 0.01)
    (image,) = axes.images
    assert (tuple(image.get_extent()), image.origin) == ((0, 0.48, 0, 80), "lower")
    np.testing.assert_array_equal(image.get_array(), FEATURES.T)


def test_values_60_db_below_the_loudest_are_black():
    axes = matplotlib.figure.Figure().subplots()
    assert spectrogram.draw(axes, FEATURES, 0.01).get_clim() == (6.0, 20.0)
    assert spectrogram.draw(axes, np.zeros([3, 4]), 0.01).get_clim() == (0.0, 0.0)
