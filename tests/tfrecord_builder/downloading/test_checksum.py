import os

import pytest

from tfrecord_builder import errors
from tfrecord_builder.downloading import checksum

HELLO = "5d41402abc4b2a76b9719d911017c592"  # RFC 1321's MD5 of "hello"


def test_the_right_sum_passes(tmp_path):
    (tmp_path / "a").write_bytes(b"hello")
    checksum.check_md5(str(tmp_path / "a"), HELLO, str(tmp_path / "a.wrong"))
    assert os.listdir(tmp_path) == ["a"]


def test_another_sum_puts_the_file_aside(tmp_path):
    (tmp_path / "a").write_bytes(b"hallo")
    aside = str(tmp_path / "a.wrong")
    with pytest.raises(errors.UserError) as caught:
        checksum.check_md5(str(tmp_path / "a"), HELLO, aside)
    assert str(caught.value).startswith(
        f"{aside}: its MD5 sum is 598d4c200461b81522a3328565c25f7c, expected {HELLO}; it was put aside under "
    )
    assert os.listdir(tmp_path) == ["a.wrong"]
