import pytest
import small_augmentation


@pytest.fixture
def folders(tmp_path):
    return small_augmentation.make_folders(tmp_path)
