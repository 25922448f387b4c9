"""Tests that models trained with each TensorFlow release work with the installed release.

They are evaluated, averaged, trained further, exported and served. tests/data has a small model per release;
tests/support/models/make_release_models.py makes them again.
"""

import json

import paths
import pytest
import release_models
import tensorflow as tf

from tfrecord_builder.program import tensorflow_release

pytestmark = pytest.mark.long

DATA = paths.ROOT / "tests" / "data"
ARCHIVES = [path.name.removesuffix(".tar.xz") for path in paths.find_files("tests/data/*.tar.xz")]
OWN = f"tensorflow-{tensorflow_release.find(tf.__version__).version}"
PARAMS = [pytest.param(name, marks=[pytest.mark.slow] if name == OWN else []) for name in ARCHIVES]


@pytest.fixture(scope="module", params=PARAMS)
def results(request, tmp_path_factory):
    """Returns the results for an archive's models with this release, and with the archive's release."""
    directory = release_models.extract(DATA / f"{request.param}.tar.xz", tmp_path_factory.mktemp("models"))
    expected = json.loads((DATA / f"{request.param}.json").read_text(encoding="utf-8"))
    return release_models.use(directory), expected


def test_there_are_models_of_each_release():
    assert ARCHIVES == [f"tensorflow-{release.version}" for release in tensorflow_release.RELEASES]


def test_checkpoints_are_evaluated_alike(results):
    """The checkpoints are evaluated one by one, and averaged."""
    found, expected = results
    for name in release_models.MODELS:
        for key in ("errors", "averaged"):
            assert found[name][key] == expected[name][key], (name, key)


def test_the_next_steps_are_the_same(results):
    """Losses depend on weights and optimizer moments, the order of the batches, and dropout and masks."""
    found, expected = results
    for name in release_models.MODELS:
        assert len(found[name]["losses"]) == release_models.MORE_STEPS
        assert found[name]["losses"] == pytest.approx(expected[name]["losses"], rel=1e-5), name
        assert found[name]["gradient_norms"] == pytest.approx(expected[name]["gradient_norms"], rel=1e-4)


def test_the_continued_checkpoint_is_the_same(results):
    found, expected = results
    for name in release_models.MODELS:
        assert found[name]["dev"] == pytest.approx(expected[name]["dev"], rel=1e-4, abs=1e-6), name
        sums = found[name]["sums"]
        assert sums["global_step"] == (release_models.STEPS[name] + release_models.MORE_STEPS) ** 2
        assert sums == pytest.approx(expected[name]["sums"], rel=1e-4), name


@pytest.mark.parametrize("export", ["served", "exported"])
def test_a_saved_model_outputs_the_same(results, export):
    """The SavedModel is from the other release, or was exported by this release."""
    found, expected = results
    assert [one["transcript"] for one in found[export]] == [one["transcript"] for one in expected[export]]
    for one, other in zip(found[export], expected["served"]):
        assert one["transcript"] == other["transcript"] != [""] and one["pinyin"] == other["pinyin"]
        for score in ("acoustic_score", "language_score"):
            assert one[score] == pytest.approx(other[score], rel=1e-4, abs=1e-5)
