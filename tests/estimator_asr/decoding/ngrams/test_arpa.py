import gzip
import os

import numpy as np
import pytest
import small_ngrams

from estimator_asr.decoding.ngrams import arpa
from tfrecord_builder import errors

LOG_10 = np.log(10)


def test_logarithms_of_a_file_become_natural(tmp_path):
    made = arpa.read(small_ngrams.write(tmp_path))
    assert made.words == ("<unk>", "<s>", "</s>", "a", "b") and made.order == 3
    np.testing.assert_allclose(made.orders[0].log_probs / LOG_10, [-2, -99, -1, -0.5, -0.75])
    np.testing.assert_allclose(made.orders[0].back_offs / LOG_10, [0, -0.5, 0, -0.25, -0.125])
    assert made.orders[1].words.tolist() == [[1, 3], [3, 4], [4, 2]]
    np.testing.assert_allclose(made.orders[1].back_offs / LOG_10, [-0.0625, 0, 0])
    assert made.orders[2].words.tolist() == [[1, 3, 4]]


def test_compression_and_white_space_do_not_change_the_model(tmp_path):
    expected = arpa.read(small_ngrams.write(tmp_path))
    other = small_ngrams.ARPA.replace("\t", "  ").replace("\n", " \r\n").replace("ngram 1=5", "ngram  1 = 5")
    other = "made by a tool\n\n" + other.replace("<unk>", "<UNK>").replace("-0.05", "-5e-2")
    (tmp_path / "other.gz").write_bytes(gzip.compress(other.encode()))
    got = arpa.read(str(tmp_path / "other.gz"))
    assert got.words == expected.words
    for one, two in zip(got.orders, expected.orders):
        for column, other in zip(one, two):
            np.testing.assert_array_equal(column, other)


@pytest.mark.parametrize("tool, num_ngrams", [("kenlm", [19, 74, 30]), ("irstlm", [19, 75, 31])])
def test_files_written_by_other_tools_are_read(tool, num_ngrams):
    made = arpa.read(str(small_ngrams.DIRECTORY / f"{tool}.arpa"))
    assert [len(each.words) for each in made.orders] == num_ngrams
    assert {"<s>", "</s>", "<unk>", "ni3"} < set(made.words)


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_skipped_and_utf_16_is_refused(tmp_path, packed):
    path = tmp_path / "windows.arpa"
    path.write_bytes((gzip.compress if packed else bytes)(small_ngrams.ARPA.encode("utf-8-sig")))
    assert arpa.read(str(path)).words == ("<unk>", "<s>", "</s>", "a", "b")
    path.write_bytes((gzip.compress if packed else bytes)(small_ngrams.ARPA.encode("utf-16")))
    with pytest.raises(errors.UserError) as raised:
        arpa.read(str(path))
    assert str(raised.value) == f"{path}: the text is in UTF-16; convert it with iconv -f UTF-16 -t UTF-8"


def test_minus_infinity_is_read_as_the_logarithm_of_0(tmp_path):
    text = small_ngrams.ARPA.replace("-99\t<s>\t-0.5", "-inf\t<s>\t-Infinity")
    made = arpa.read(small_ngrams.write(tmp_path, text))
    np.testing.assert_allclose(made.orders[0].log_probs[1] / LOG_10, -99)
    np.testing.assert_allclose(made.orders[0].back_offs[1] / LOG_10, -99)


@pytest.mark.parametrize("word", ["3", "3.14", "-3.5"])
def test_a_number_can_be_a_word(tmp_path, word):
    made = arpa.read(small_ngrams.write(tmp_path, small_ngrams.ARPA.replace("b", word)))
    assert made.words == ("<unk>", "<s>", "</s>", "a", word)


def test_highest_orders_without_ngrams_are_left_out(tmp_path):
    text = small_ngrams.ARPA.replace("ngram 3=1", "ngram 3=0").replace("-0.05\t<s> a b\n", "")
    assert arpa.read(small_ngrams.write(tmp_path, text)).order == 2


@pytest.mark.parametrize(
    "old, new, said",
    [
        (
            "\\data\\",
            "data",
            r"there is no \\data\\ line, so this is not an ARPA file; if it is a binary model, convert it to",
        ),
        (
            "ngram 2=3",
            "ngram 3=3",
            "line 3: found 'ngram 3=3', expected ngram 2=COUNT; copy or write the file again",
        ),
        (
            "ngram 1=5\nngram 2=3\nngram 3=1\n",
            "",
            r"line 3: found '\\\\1-grams:', expected ngram 1=COUNT; copy",
        ),
        ("\\2-grams:", "\\4-grams:", r"line 13: found '\\\\4-grams:', expected \\2-grams:; copy"),
        ("ngram 2=3", "ngram 2=4", r"the file has 3 2-grams, but \\data\\ declares 4; copy"),
        (
            "-0.2\ta b",
            "-0.2\ta",
            r"line 15: '-0.2\\ta' has 2 fields, expected 3 or 4 \(log10 probability, wo",
        ),
        ("-0.2\ta b", "x\ta b", "line 15: 'x' is not a finite number; copy"),
        ("-0.2\ta b", "inf\ta b", "line 15: 'inf' is not a finite number; copy"),
        ("-0.75\tb\t-0.125", "-0.75\t\t-0.125", r"line 11: '-0.75\\t\\t-0.125' has no word after the probab"),
        ("-0.75\tb\t-0.125", "-0.75\t \t0", r"line 11: '-0.75\\t \\t0' has no word after the probability; c"),
        ("-0.75\tb\t-0.125", "-0.75  -0.125", "line 11: '-0.75  -0.125' has no word after the probability; "),
        ("-0.2\ta b", "nan\ta b", "line 15: 'nan' is not a finite number; copy"),
        ("-0.2\ta b", "0.2\ta b", "line 15: the log10 probability is above 0; copy"),
        ("-0.2\ta b", "-0.2\ta c", "line 15: 'c' is not among the 1-grams; copy"),
        ("-0.2\ta b", "-0.2\t<s> a", "line 15: the 2-gram is a duplicate; copy"),
        ("-0.75\tb\t", "-0.75\ta\t", "line 11: 'a' is a duplicate; copy"),
        ("<s> a b\n", "b a b\n", "line 19: context 'b a' is not among the 2-grams; use a pruning tool that"),
        (
            "</s>",
            "<e>",
            "the 1-grams lack </s>, so this is not a model of sentences; train a model on text with one",
        ),
        ("\n\\end\\\n", "", r"the file ends before \\end\\; copy"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, old, new, said):
    assert old in small_ngrams.ARPA
    path = small_ngrams.write(tmp_path, small_ngrams.ARPA.replace(old, new))
    with pytest.raises(errors.UserError, match=f"small.arpa: {said}"):
        arpa.read(path)


def test_a_word_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "latin.arpa").write_bytes(small_ngrams.ARPA.replace("b", "\u00e9").encode("latin-1"))
    with pytest.raises(errors.UserError, match="line 11: '\ufffd' is not UTF-8; copy"):
        arpa.read(str(tmp_path / "latin.arpa"))


def test_a_missing_or_cut_file_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match="no.arpa: the n-gram model cannot be read .No such file"):
        arpa.read(str(tmp_path / "no.arpa"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(small_ngrams.ARPA.encode())[:-20])
    with pytest.raises(errors.UserError, match="cut.gz: the gzip file is damaged .*; copy or write the file"):
        arpa.read(str(tmp_path / "cut.gz"))


def test_a_model_that_was_read_is_written_unchanged(tmp_path):
    made = arpa.read(small_ngrams.write(tmp_path))
    arpa.write(made, str(tmp_path / "again.arpa"))
    assert (tmp_path / "again.arpa").read_text() == small_ngrams.ARPA
    arpa.write(made, str(tmp_path / "again.arpa.gz"))
    compressed = (tmp_path / "again.arpa.gz").read_bytes()
    assert gzip.decompress(compressed).decode() == small_ngrams.ARPA
    arpa.write(made, str(tmp_path / "other.arpa.gz"))
    assert (tmp_path / "other.arpa.gz").read_bytes() == compressed


def test_a_failed_write_leaves_the_older_file(tmp_path):
    made = arpa.read(small_ngrams.write(tmp_path))
    with pytest.raises(IndexError):
        arpa.write(made._replace(words=made.words[:2]), str(tmp_path / "small.arpa"))
    assert os.listdir(tmp_path) == ["small.arpa"]
    assert (tmp_path / "small.arpa").read_text() == small_ngrams.ARPA
