"""Estimates compared with those of KenLM's lmplz, and with the formulas written out with dictionaries."""

import collections
import math

import ngram_reference
import numpy as np
import pytest
import small_ngrams

from estimator_asr.decoding.ngrams import arpa, kneser_ney
from tfrecord_builder import errors


def test_estimates_equal_those_of_kenlm():
    made = kneser_ney.estimate(small_ngrams.read_text(), 3, (0, 0, 1))
    ours = ngram_reference.BackOffModel(made.model)
    theirs = ngram_reference.BackOffModel(arpa.read(str(small_ngrams.DIRECTORY / "kenlm.arpa")))
    assert set(ours.contexts()) == set(theirs.contexts()) and len(ours.contexts()) == 78
    for context in ours.contexts():
        for word in set(ours.words) - {"<s>"}:
            assert ours.log_prob(context, word) == pytest.approx(theirs.log_prob(context, word), abs=2e-6)
    assert made.num_ngrams == (19, 74, 121) and len(made.model.orders[2].words) == 30
    printed = [(0.111111, 1.83333, 1.88889), (0.40625, 1.16612, 1.75), (0.739837, 0.890244, 1.89024)]
    np.testing.assert_allclose(made.discounts, printed, rtol=1e-5)  # lmplz printed these discounts


@pytest.mark.parametrize(
    "order, prune", [(1, ()), (2, ()), (3, ()), (4, (0, 1)), (3, (0, 1, 3)), (3, (0, 9))]
)
def test_probabilities_of_each_context_sum_to_one(order, prune):
    made = ngram_reference.BackOffModel(kneser_ney.estimate(small_ngrams.read_text(), order, prune).model)
    for context in made.contexts():
        total = sum(math.exp(made.log_prob(context, word)) for word in made.words if word != "<s>")
        assert total == pytest.approx(1, abs=1e-12)


def test_unpruned_estimates_follow_the_formulas():
    text = small_ngrams.read_text()
    estimate = kneser_ney.estimate(text, 3)
    made = ngram_reference.BackOffModel(estimate.model)
    sentences = [line.split() for line in (small_ngrams.DIRECTORY / "invented.txt").read_text().splitlines()]
    reference = Formulas(sentences, 3, estimate.discounts)
    for context in made.contexts():
        for word in set(made.words) - {"<s>"}:
            assert math.exp(made.log_prob(context, word)) == pytest.approx(reference.prob(context, word))


class Formulas:
    """Chen and Goodman (1999), equations 14 to 17, for one word at a time."""

    def __init__(self, sentences, order, discounts):
        self.order, self.discounts = order, discounts
        self.counts = collections.Counter()
        for sentence in sentences:
            words = ("<s>", *sentence, "</s>")
            for length in range(1, order + 1):
                self.counts.update(words[i : i + length] for i in range(len(words) - length + 1))
        self.words = {words[0] for words in self.counts if len(words) == 1} - {"<s>"} | {"<unk>"}

    def adjusted(self, ngram):
        if len(ngram) == self.order or ngram[0] == "<s>":
            return self.counts[ngram]
        return sum((word, *ngram) in self.counts for word in self.words | {"<s>"})

    def prob(self, context, word):
        lower = self.prob(context[1:], word) if context else 1 / len(self.words)
        following = [self.adjusted((*context, other)) for other in self.words]
        if not sum(following):
            return lower
        discounts = (0, *self.discounts[len(context)])
        count = self.adjusted((*context, word))
        gamma = sum(discounts[min(each, 3)] for each in following)
        return (count - discounts[min(count, 3)] + gamma * lower) / sum(following)


def test_discounts_follow_from_the_counts_of_counts():
    counts = np.repeat([0, 1, 2, 3, 4, 7], [5, 8, 4, 2, 1, 3])  # y = 8 / 16
    assert kneser_ney.find_discounts(counts) == (0.5, 2 - 1.5 * 0.5, 3 - 2 * 0.5)
    assert kneser_ney.find_discounts(np.array([1, 1, 2, 2, 4])) is None  # no 3
    assert kneser_ney.find_discounts(np.repeat([1, 2, 3], [1, 1, 9])) is None  # below 0


def test_a_small_text_gets_the_fallback_discounts():
    made = kneser_ney.estimate(kneser_ney.encode([["a", "b"], ["a"]]), 2)
    assert made.discounts == ((0.5, 1.0, 1.5),) * 2 and made.has_fallback == (True, True)
    model = ngram_reference.BackOffModel(made.model)
    # Words that precede </s>: b and a; a: <s>; b: a. Discounts 1, 0.5, 0.5; <unk>, </s>, a, b share 2 / 4.
    assert math.exp(model.log_prob((), "</s>")) == pytest.approx((2 - 1) / 4 + 0.5 / 4)
    assert math.exp(model.log_prob((), "<unk>")) == pytest.approx(0.5 / 4)
    # <s> a occurs twice: a discount of 1 goes to the unigram of a, which has 1/8 + 1/8.
    assert math.exp(model.log_prob(("<s>",), "a")) == pytest.approx((2 - 1) / 2 + 1 / 2 * (0.5 / 4 + 0.5 / 4))


def test_pruning_leaves_out_rare_ngrams_and_then_empty_orders():
    text = small_ngrams.read_text()
    made = kneser_ney.estimate(text, 4, (0, 1))  # the last threshold applies to all higher orders
    occurrences = [each.occurrences for each in kneser_ney.count(text, 4)]
    kept = [int(np.sum(each > 1)) for each in occurrences[1:]]
    assert [len(each.words) for each in made.model.orders] == [19, *kept]
    assert kneser_ney.estimate(text, 3, (0, 0, 99)).model.order == 2


def test_word_ids_follow_the_sorted_words():
    text = kneser_ney.encode([["b", "a"], ["c"]])
    assert text.words == ("<unk>", "<s>", "</s>", "a", "b", "c")
    assert text.stream.tolist() == [1, 4, 3, 2, 1, 5, 2]


def test_ngrams_are_counted_within_sentences():
    text = kneser_ney.encode([["a", "b"], ["a", "b"], ["b"]])
    unigrams, bigrams, trigrams, fourgrams = kneser_ney.count(text, 5)
    assert unigrams.occurrences.tolist() == [0, 3, 3, 2, 3]
    pairs = zip(bigrams.contexts.tolist(), bigrams.words.tolist(), bigrams.occurrences.tolist())
    named = {(text.words[context], text.words[word]): count for context, word, count in pairs}
    assert named == {("<s>", "a"): 2, ("<s>", "b"): 1, ("a", "b"): 2, ("b", "</s>"): 3}
    assert bigrams.suffixes.tolist() == bigrams.words.tolist()
    assert trigrams.occurrences.tolist() == [2, 1, 2]  # <s> a b, <s> b </s>, a b </s>
    assert bigrams.words[trigrams.suffixes].tolist() == trigrams.words.tolist()
    assert fourgrams.occurrences.tolist() == [2]  # there are no 5-grams


def test_text_without_words_is_refused():
    for sentences in ([], [[], []]):
        with pytest.raises(errors.UserError, match="text: all sentences are empty; pass text with words"):
            kneser_ney.encode(sentences)


@pytest.mark.parametrize("mark", ["<s>", "</s>"])
def test_sentence_marks_in_the_text_are_refused(mark):
    with pytest.raises(
        errors.UserError, match=f"text: sentence 'a {mark}' contains the word {mark}, which is reserved"
    ):
        kneser_ney.encode([["a"], ["a", mark]])
