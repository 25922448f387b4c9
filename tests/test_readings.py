import hashlib

import numpy as np
import pytest

from tfrecord_builder import errors, readings, vocabulary

TOKENS = vocabulary.Vocabulary(["<unk>", "hao3", "ma1", "xyz1"])
CHARACTERS = vocabulary.Vocabulary(["<unk>", "好", "妈", "郝"])


def test_file_is_sorted_whatever_the_order_of_the_pairs(tmp_path):
    made = readings.Readings({"ma1": "妈", "hao3": "郝好郝"})
    path = tmp_path / "readings.tsv"
    made.save(str(path))
    assert path.read_text("utf-8") == "hao3\t好郝\nma1\t妈\n"
    assert made.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert readings.Readings({"hao3": "好郝", "ma1": "妈"}).sha256 == made.sha256
    loaded = readings.Readings.load(str(path))
    assert (loaded.pairs, loaded.sha256) == (made.pairs, made.sha256)
    assert [file.name for file in tmp_path.iterdir()] == ["readings.tsv"]


def test_mask_allows_the_readings_of_a_token():
    mask = readings.Readings({"hao3": "好郝", "ma1": "妈"}).mask(TOKENS, CHARACTERS)
    assert mask.dtype == bool
    np.testing.assert_array_equal(mask[1:3], [[False, True, False, True], [False, False, True, False]])


def test_mask_of_the_unknown_token_allows_every_character():
    assert readings.Readings({}).mask(TOKENS, CHARACTERS)[0].all()


def test_mask_allows_unknown_only_where_no_character_fits():
    mask = readings.Readings({"hao3": "好", "ma1": "马"}).mask(
        TOKENS, CHARACTERS
    )  # 马 is not in the vocabulary
    np.testing.assert_array_equal(mask[1], [False, True, False, False])
    np.testing.assert_array_equal(mask[2], [True, False, False, False])
    np.testing.assert_array_equal(mask[3], [True, False, False, False])


def test_readings_beside_an_unknown_character_do_not_allow_unknown():
    mask = readings.Readings({"hao3": "好㝀"}).mask(TOKENS, CHARACTERS)
    np.testing.assert_array_equal(mask[1], [False, True, False, False])


@pytest.mark.parametrize("line", ["hao3", "hao3\t", "\t好", "hao3 好"])
def test_load_names_the_line_at_fault(tmp_path, line):
    path = tmp_path / "readings.tsv"
    path.write_text(f"ba1\t八\n{line}\n", "utf-8")
    with pytest.raises(errors.UserError) as caught:
        readings.Readings.load(str(path))
    assert f"readings.tsv: line 2 is {line!r}, expected syllable<TAB>characters" in str(caught.value)


def test_load_of_what_is_missing_or_no_text(tmp_path):
    with pytest.raises(errors.UserError, match="readings.tsv: readings cannot be read, No such file"):
        readings.Readings.load(str(tmp_path / "readings.tsv"))
    (tmp_path / "readings.tsv").write_bytes(b"ab\xff")
    with pytest.raises(errors.UserError, match="readings.tsv: byte 2 is not UTF-8"):
        readings.Readings.load(str(tmp_path / "readings.tsv"))
