"""An n-gram model scored word by word from a dictionary, as the definition of ARPA files says."""


class BackOffModel:
    """Scores words with the formula in ngrams/model.py, without states or arrays."""

    def __init__(self, ngram_model):
        self.order = ngram_model.order
        self.words = ngram_model.words
        self._entries = {
            tuple(ngram_model.words[index] for index in words): (log_prob, back_off)
            for ngrams in ngram_model.orders
            for words, log_prob, back_off in zip(*(column.tolist() for column in ngrams))
        }

    def contexts(self):
        """The n-grams below the highest order, and the empty one."""
        return [(), *(words for words in self._entries if len(words) < self.order and words[-1] != "</s>")]

    def log_prob(self, context, word) -> float:
        """Natural logarithm of the probability of a word after a tuple of words."""
        context = context[max(len(context) - self.order + 1, 0) :]
        if (*context, word) in self._entries:
            return self._entries[(*context, word)][0]
        if not context:
            return self._entries[("<unk>",)][0]
        _, back_off = self._entries.get(context, (0.0, 0.0))
        return back_off + self.log_prob(context[1:], word)
