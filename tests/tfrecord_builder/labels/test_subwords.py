import sys

import pytest

from tfrecord_builder import errors
from tfrecord_builder.data import vocabulary
from tfrecord_builder.labels import subwords

ENGLISH = ["the cat sat on the mat", "the dog sat on the log", "a cat and a dog"] * 3
MANDARIN = ["今天天气很好", "今天你好吗", "天气不好", "你听let it go"]


@pytest.fixture(scope="module")
def model():
    return subwords.SubwordModel(subwords.train(ENGLISH, 60))


def test_english_is_split_into_subwords(model):
    assert model.encode("the cat on a mat") == ["▁the", "▁cat", "▁on", "▁a", "▁mat"]
    assert model.encode("") == []


@pytest.mark.parametrize("transcripts", [ENGLISH, MANDARIN])
def test_subwords_join_to_the_text(transcripts):
    trained = subwords.SubwordModel(subwords.train(transcripts, 60))
    for text in [*transcripts, "a cat", "good dog"]:
        assert vocabulary.join_tokens(trained.encode(text), "bpe") == text


def test_mandarin_has_no_leading_space():
    trained = subwords.SubwordModel(subwords.train(MANDARIN, 40))
    assert trained.encode("气今天") == ["气", "今", "天"]
    assert trained.encode("今天天气") == ["▁今天", "天气"]


def test_unknown_characters_are_one_subword(model):
    assert model.encode("the 犇犇") == ["▁the", "▁", "犇犇"]


def test_list_subwords_contains_all_subwords_of_transcripts():
    trained = subwords.SubwordModel(subwords.train(["the cat"] * 3, 15))
    letters = set("▁thecat")
    assert letters < trained.list_subwords() and {"▁the", "▁cat"} < trained.list_subwords()
    assert set(trained.encode("hat chat tea")) <= trained.list_subwords()
    assert not {"<unk>", "<s>", "</s>"} & trained.list_subwords()


def test_rare_characters_and_long_transcripts_are_learned():
    trained = subwords.SubwordModel(subwords.train(["a" * 5000, "é", "b " * 5000], 10))
    assert {"a", "b", "é"} < trained.list_subwords()


def test_the_same_transcripts_give_the_same_bytes():
    first = subwords.train(iter(ENGLISH + MANDARIN), 80)
    assert subwords.train(iter(ENGLISH + MANDARIN), 80) == first
    assert subwords.train(iter(MANDARIN), 80) != first


def test_the_size_is_a_maximum():
    def count_pieces(size):
        trained = subwords.SubwordModel(subwords.train(ENGLISH, size))
        return len({piece for text in ENGLISH for piece in trained.encode(text)})

    assert count_pieces(20) <= 20
    assert count_pieces(5000) == 9  # every word is a subword


def test_logs_nothing(capfd):
    subwords.train(["", *ENGLISH], 60)
    subwords.train(["啊"], 60)
    assert capfd.readouterr() == ("", "")


def test_refuses():
    with pytest.raises(errors.UserError, match="--bpe_vocab_size is 10, expected at least 16, .*=16 or more"):
        subwords.train(ENGLISH, 10)
    assert subwords.train(ENGLISH, 16)
    message = "--token_type=bpe: the train split has no transcripts to learn.*--vocab"
    for nothing in ([], ["", ""]):
        with pytest.raises(errors.UserError, match=message):
            subwords.train(nothing, 60)
    message = "sentencepiece cannot learn subwords .*choose another token type"
    with pytest.raises(errors.UserError, match=message):
        subwords.train(["a" * (1 << 20) + "a"], 60)  # sentencepiece ignores such a long transcript


@pytest.mark.parametrize("content", [b"", b"no model"])
def test_refuses_another_file(content):
    message = rf"bpe.model \({len(content)} bytes\) is not a valid SentencePiece model .*restore the file"
    with pytest.raises(errors.UserError, match=message):
        subwords.SubwordModel(content)


def test_subwords_without_sentencepiece_name_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    message = "^--token_type=bpe needs sentencepiece, .*; run pip install 'estimator-asr\\[bpe\\]'$"
    with pytest.raises(errors.UserError, match=message):
        subwords.train(ENGLISH, 60)
    with pytest.raises(errors.UserError, match=message):
        subwords.SubwordModel(b"")
