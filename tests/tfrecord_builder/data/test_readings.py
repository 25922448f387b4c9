import pytest

from tfrecord_builder import errors
from tfrecord_builder.data import readings


def test_load_returns_what_save_wrote(tmp_path):
    path = tmp_path / "readings.tsv"
    readings.Readings({"zai4": "在再", "a": "啊"}).save(str(path))
    assert path.read_text("utf-8") == "a\t啊\nzai4\t再在\n"
    assert readings.Readings.load(str(path)).pairs == {"a": "啊", "zai4": "再在"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"zai4\t\xff\n", "readings.tsv: readings file is not valid UTF-8 \\(byte 5\\); restore the file"),
        (b"a\tb\nzai4\n", "readings.tsv: line 2 is 'zai4', expected syllable<TAB>characters"),
    ],
)
def test_load_refuses_invalid_files(tmp_path, content, message):
    (tmp_path / "readings.tsv").write_bytes(content)
    with pytest.raises(errors.UserError, match=message):
        readings.Readings.load(str(tmp_path / "readings.tsv"))
