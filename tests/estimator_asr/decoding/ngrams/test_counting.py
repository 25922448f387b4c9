from __future__ import annotations

import pytest

from estimator_asr.decoding.ngrams import counting
from tfrecord_builder import errors


def test_word_ids_follow_the_sorted_words():
    text = counting.encode([["b", "a"], ["c"]])
    assert text.words == ("<unk>", "<s>", "</s>", "a", "b", "c")
    assert text.stream.tolist() == [1, 4, 3, 2, 1, 5, 2]


def test_ngrams_are_counted_within_sentences():
    text = counting.encode([["a", "b"], ["a", "b"], ["b"]])
    unigrams, bigrams, trigrams, fourgrams = counting.count(text, 5)
    assert unigrams.occurrences.tolist() == [0, 3, 3, 2, 3]
    pairs = zip(bigrams.contexts.tolist(), bigrams.words.tolist(), bigrams.occurrences.tolist())
    named = {(text.words[context], text.words[word]): count for context, word, count in pairs}
    assert named == {("<s>", "a"): 2, ("<s>", "b"): 1, ("a", "b"): 2, ("b", "</s>"): 3}
    assert bigrams.suffixes.tolist() == bigrams.words.tolist()
    assert trigrams.occurrences.tolist() == [2, 1, 2]  # <s> a b, <s> b </s>, a b </s>
    assert bigrams.words[trigrams.suffixes].tolist() == trigrams.words.tolist()
    assert fourgrams.occurrences.tolist() == [2]  # of five words there is none


def test_text_without_words_is_refused():
    for sentences in ([], [[], []]):
        with pytest.raises(errors.UserError, match="text: all sentences are empty; pass text with words"):
            counting.encode(sentences)


@pytest.mark.parametrize("mark", ["<s>", "</s>"])
def test_sentence_marks_in_the_text_are_refused(mark):
    with pytest.raises(
        errors.UserError, match=f"text: sentence 'a {mark}' has the word {mark}, which is reserved"
    ):
        counting.encode([["a"], ["a", mark]])
