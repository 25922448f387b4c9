"""Byte-pair encoding that starts with characters, against the definition, which starts with bytes."""

import numpy as np
import pytest
import small_whisper
import tensorflow as tf

from estimator_asr.models import byte_pairs
from estimator_asr.pretrained import whisper_vocabulary

CHARACTERS = ("你", "好", "吗", "是", "郝", "气", "不", "A")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("whisper")
    small_whisper.write_whole(path)
    return whisper_vocabulary.read(str(path / "tokenizer.json"))


def encode(spelling, texts):
    ids = [[CHARACTERS.index(each) if each in CHARACTERS else -1 for each in text] for text in texts]
    longest = max(map(len, ids))
    rows = np.int32([[*row, *[-1] * (longest - len(row))] for row in ids]).reshape(len(texts), longest)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tokens, counts = session.run(byte_pairs.encode(spelling, tf.constant(rows)))
    return [[spelling.token_texts[i] for i in row[:count]] for row, count in zip(tokens, counts)]


def merge_bytes(tokenizer, text):
    """Merges all occurrences of the lowest-ranked pair until no pair is left (Sennrich et al. 2016)."""
    tokens = [bytes([byte]) for byte in text.encode()]
    while pairs := [each for each in zip(tokens, tokens[1:]) if each in tokenizer.ranks]:
        best, merged = min(pairs, key=tokenizer.ranks.get), []
        while tokens:
            is_best = tuple(tokens[:2]) == best
            merged.append(b"".join(tokens[: 1 + is_best]))
            del tokens[: 1 + is_best]
        tokens = merged
    return tokens


def test_words_characters_and_bytes_become_tokens(tokenizer):
    spelling = whisper_vocabulary.spell(tokenizer, CHARACTERS)
    found = encode(spelling, ["你好吗", "气A", "", "不好"])
    assert found[0] == ["你好吗".encode()]
    assert found[1] == [*(bytes([byte]) for byte in "气".encode()), b"A"]
    assert found[2] == []
    assert found[3] == [*(bytes([byte]) for byte in "不".encode()), "好".encode()]


def test_tokens_equal_those_of_byte_level_merging(tokenizer):
    spelling, rng = whisper_vocabulary.spell(tokenizer, CHARACTERS), np.random.default_rng(0)
    texts = ["".join(rng.choice(CHARACTERS, rng.integers(0, 9))) for _ in range(60)]
    assert encode(spelling, texts) == [merge_bytes(tokenizer, text) for text in texts]


def test_characters_without_a_spelling_are_skipped(tokenizer):
    spelling = whisper_vocabulary.spell(tokenizer, CHARACTERS)
    assert encode(spelling, ["你龘好"]) == encode(spelling, ["你好"])


def test_a_file_that_is_not_a_tokenizer_is_refused(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": {"vocab": {}}}', encoding="utf-8")
    with pytest.raises(
        ValueError, match="added_tokens.*; this is not a multilingual Whisper model's tokenizer"
    ):
        whisper_vocabulary.read(str(path))
