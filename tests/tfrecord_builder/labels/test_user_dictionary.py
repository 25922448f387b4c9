import pytest

from tfrecord_builder import errors
from tfrecord_builder.labels import user_dictionary


def _load(tmp_path, content):
    path = tmp_path / "names.tsv"
    path.write_text(content, "utf-8")
    return user_dictionary.load(str(path))


def test_load(tmp_path):
    content = "\ufeff重庆\tchong2 qing4\r\n\n绿 \tLÜ4\n女儿国\tnu:3 er2 guo2\n"
    assert _load(tmp_path, content) == {
        "重庆": ("chong2", "qing4"),
        "绿": ("lv4",),
        "女儿国": ("nv3", "er2", "guo2"),
    }


def test_compatibility_ideographs_are_written_as_in_transcripts(tmp_path):
    assert _load(tmp_path, "\uf914\tle4\n") == {"\u6a02": ("le4",)}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("重庆 chong2 qing4", "tab is missing"),
        ("\tchong2", "phrase is '', which is not only hanzi"),
        ("A楼\ta lou2", "phrase is 'A楼', which is not only hanzi"),
        ("重庆\tchong2", "重庆 has 2 hanzi and 1 syllables"),
        ("重庆\t", "重庆 has 2 hanzi and 0 syllables"),
        ("重庆\tchong qing4", "'chong' is not a toned syllable"),
        ("重庆\tchóng qìng", "'chóng' is not a toned syllable"),
        ("重庆\tchong2 bzz4", "'bzz4' is not a toned syllable"),
        ("重庆\tchong2 qing0", "'qing0' is not a toned syllable"),
        (
            "重庆\tchong2´ qing4",
            "'chong2´' is not a toned syllable",
        ),  # NFKC makes a blank and an accent of it
        ("重庆\tchong2\u200b qing4", "'chong2\\u200b' is not a toned syllable"),
        ("一\tyi1", "一 is a duplicate"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, message):
    with pytest.raises(errors.UserError) as caught:
        _load(tmp_path, f"一\tyi1\n{line}\n")
    assert f"names.tsv: line 2: {message}, expected phrase<TAB>pin1 yin1; fix the line." in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match="none.tsv: file does not exist.*phrase<TAB>pin1 yin1"):
        user_dictionary.load(str(tmp_path / "none.tsv"))
