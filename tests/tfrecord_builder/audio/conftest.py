import numpy as np
import pytest

from tfrecord_builder.audio import audio_files


def read_blocks(path, sample_rate):
    return np.concatenate(list(audio_files.AudioBlocks(path, sample_rate)))


@pytest.fixture(params=[audio_files.read_audio, read_blocks])
def read(request):
    return request.param


@pytest.fixture
def write(tmp_path):
    """Writes a file whose name has no extension, because the format does not depend on it."""

    def write_file(content):
        (tmp_path / "a").write_bytes(content)
        return str(tmp_path / "a")

    return write_file
