"""Fixtures: a data directory that the builder has written, and an S3 server."""

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


@pytest.fixture(scope="module")
def store():
    """Returns a client of a new server with an empty bucket; s3:// paths connect to this server."""
    import s3_server  # imports moto, which takes a second

    with s3_server.run() as client:
        yield client


@pytest.fixture
def put(store):
    """Returns a function of a key and bytes that stores an object and returns its path."""
    import s3_server

    return lambda key, content=b"x": s3_server.put(store, key, content)
