import hashlib

import pytest

from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary


def test_build_sorts_the_tokens_after_the_unknown_token():
    vocab = vocabulary.Vocabulary.build([["ma3", "ba1"], ["ba1", "<unk>"]])
    assert vocab.tokens == ("<unk>", "ba1", "ma3")
    assert vocab.size == 3


def test_blank_is_the_last_class():
    vocab = vocabulary.Vocabulary(["<unk>", "a", "b"])
    assert (vocab.unknown_id, vocab.blank_id, vocab.num_classes) == (0, 3, 4)


def test_encode_and_decode():
    vocab = vocabulary.Vocabulary(["<unk>", "a", "b"])
    assert vocab.encode(["b", "a", "c"]) == [2, 1, 0]
    assert vocab.decode([2, 1, 0]) == ["b", "a", "<unk>"]
    assert vocab.count_unknown(["b", "c", "c"]) == 2


@pytest.mark.parametrize("index", [3, -1])
def test_decode_refuses_the_blank_and_negative_ids(index):
    with pytest.raises(IndexError, match="id .*expected 0 to 2"):
        vocabulary.Vocabulary(["<unk>", "a", "b"]).decode([index])


def test_file_has_one_token_per_line_and_its_hash(tmp_path):
    vocab = vocabulary.Vocabulary(["<unk>", "你", "<space>"])
    path = tmp_path / "tokens.txt"
    vocab.save(str(path))
    assert path.read_bytes() == "<unk>\n你\n<space>\n".encode()
    assert vocab.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    loaded = vocabulary.Vocabulary.load(str(path))
    assert (loaded.tokens, loaded.sha256) == (vocab.tokens, vocab.sha256)
    assert [file.name for file in tmp_path.iterdir()] == ["tokens.txt"]


@pytest.mark.parametrize(
    "tokens, message",
    [
        ([], "first token is missing, expected <unk>"),
        (["a", "<unk>"], "first token is 'a', expected <unk>"),
        (["<unk>", "a", "a"], "line 3: token 'a' is a duplicate"),
        (["<unk>", "", "a"], "line 2: token '' is empty or contains white space"),
        (["<unk>", "a\r"], "line 2: token 'a\\r' is empty or contains white space"),
        (["<unk>", "a\u3000b"], "is empty or contains white space; remove the line"),
    ],
)
def test_invalid_tokens_are_refused(tokens, message):
    with pytest.raises(errors.UserError) as caught:
        vocabulary.Vocabulary(tokens)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"<unk>\na\na\n", "tokens.txt: line 3: token 'a' is a duplicate"),
        (b"<unk>\r\na\r\n", "tokens.txt: the first token is '<unk>\\r', expected <unk>"),
        (b"<unk>\n\xff\n", "tokens.txt: vocabulary file is not valid UTF-8 (byte 6); restore the file"),
    ],
)
def test_load_names_the_file(tmp_path, content, message):
    path = tmp_path / "tokens.txt"
    path.write_bytes(content)
    with pytest.raises(errors.UserError) as caught:
        vocabulary.Vocabulary.load(str(path))
    assert message in str(caught.value)


def test_load_names_a_missing_file(tmp_path):
    with pytest.raises(errors.UserError, match="nowhere.txt: vocabulary file cannot be read .No such file"):
        vocabulary.Vocabulary.load(str(tmp_path / "nowhere.txt"))


@pytest.mark.parametrize(
    ("token_type", "tokens", "expected"),
    [
        ("syllable", "ni3 hao3", "ni3 hao3"),
        ("toneless", "ni hao A", "ni hao A"),
        ("initial_final", "zh ong1 g uo2 iou3", "zhong1 guo2 you3"),
        ("character", "a <space> b", "a b"),
        ("bpe", "▁the ▁c at 你 好", "the cat你好"),
        ("bpe", "▁", ""),
    ],
)
def test_join_tokens(token_type, tokens, expected):
    assert vocabulary.join_tokens(tokens.split(), token_type) == expected
    assert vocabulary.join_tokens([], token_type) == ""


def test_join_tokens_refuses_an_unknown_token_type():
    message = "token_type is 'word', expected one of syllable, toneless, initial_final, c"
    with pytest.raises(ValueError, match=message):
        vocabulary.join_tokens([], "word")


def test_extended_keeps_existing_ids():
    vocab = vocabulary.Vocabulary(["<unk>", "b", "x"])
    assert vocab.extended(["c", "a", "x", "c"]).tokens == ("<unk>", "b", "x", "a", "c")
    assert vocab.extended([]).sha256 == vocab.sha256


@pytest.mark.parametrize(
    ("tokens", "num_frames"), [("a b c", 3), ("a a b", 4), ("a b a", 3), ("a", 1), ("", 0)]
)
def test_ctc_needs_a_frame_per_token_and_a_blank_between_equal_ones(tokens, num_frames):
    assert vocabulary.min_ctc_frames(tokens.split()) == num_frames
