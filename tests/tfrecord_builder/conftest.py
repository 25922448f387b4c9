"""Fixtures with a data directory that the builder has written."""

import pathlib
import shutil

import built_data
import pytest


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A data directory with 12 utterances in train and 3 in dev, three shards each; must not be changed."""
    return built_data.make(tmp_path_factory.mktemp("built"))


@pytest.fixture
def data_dir(built, tmp_path):
    """A copy of `built`, which the test may change."""
    return pathlib.Path(shutil.copytree(built, tmp_path / "data"))
