import pytest

from tfrecord_builder import errors
from tfrecord_builder.program import tensorflow_release


@pytest.mark.parametrize(
    "version, release", [("2.15.1", "2.15"), ("2.21.0", "2.21"), ("2.16.1", None), ("2.2", None), ("3", None)]
)
def test_the_release_of_a_tensorflow_version(version, release):
    found = tensorflow_release.find(version)
    assert (found and found.version) == release


@pytest.mark.parametrize(
    "python, release",
    [
        ((3, 8), None),
        ((3, 10), "2.15"),
        ((3, 11, 7), "2.15"),
        ((3, 12), "2.21"),
        ((3, 13), "2.21"),
        ((3, 14), None),
    ],
)
def test_the_release_for_a_python_version(python, release):
    found = tensorflow_release.for_python(python)
    assert (found and found.version) == release


def test_untested_releases_are_refused_in_one_sentence():
    tensorflow_release.require("2.15.0")
    with pytest.raises(errors.UserError) as caught:
        tensorflow_release.require("2.22.0rc0")
    assert str(caught.value) == (
        "the version of TensorFlow is 2.22.0rc0, expected 2.15 (Python 3.10 to 3.11) or 2.21 "
        "(Python 3.12 to 3.13); install the pinned version with pip install -r requirements.txt"
    )
