import numpy as np

from tfrecord_builder.building import half_floats

ALL = np.arange(65536, dtype=np.uint16).view(np.float16)


def test_every_finite_float16_widens_exactly():
    finite = ALL[np.isfinite(ALL)]
    widened = half_floats.to_float32(finite.reshape(-1, 4))
    assert widened.dtype == np.float32
    np.testing.assert_array_equal(widened, finite.reshape(-1, 4).astype(np.float32))
    np.testing.assert_array_equal(np.signbit(widened.ravel()), np.signbit(finite))  # -0 stays


def test_float32_stays_as_it_is():
    values = np.array([[0.1, -1e30]], np.float32)
    assert half_floats.to_float32(values) is values


def test_the_numbers_that_are_not_finite_are_those_of_numpy():
    found = [half_floats.are_finite(ALL[i : i + 1]) for i in range(0, 65536, 7)]
    assert found == np.isfinite(ALL[::7]).tolist()
    assert not half_floats.are_finite(np.array([1, 2, np.inf], np.float32))
    assert half_floats.are_finite(np.array([1, 2, 1e30], np.float32))
