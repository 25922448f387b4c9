"""Language task: converts tokens to characters, one character per token."""

from __future__ import annotations

from typing import Optional

import tensorflow as tf

from estimator_asr.decoding.search import candidates, character_search, scorers
from estimator_asr.experiment import task_spec
from estimator_asr.models import language, losses
from estimator_asr.models.tasks import metrics, task

_NO_CANDIDATE = -10.0  # log probability of a character that is not among its token's candidates


class Language(task.Task):
    """The language task, which converts tokens to characters."""

    spec = task_spec.LANGUAGE

    def check_ids(self, features, labels):
        token_ids = losses.check_labels(features["token_ids"], features["num_tokens"], self.model.tokens.size)
        character_ids, num_characters = labels["character_ids"], labels["num_characters"]
        character_ids = losses.check_labels(character_ids, num_characters, self.model.characters.size)
        return {**features, "token_ids": token_ids}, {**labels, "character_ids": character_ids}

    def build(self, features, labels=None, seed=None) -> candidates.ScoredPairs:
        return language.build(
            self.model.config.language,
            features["token_ids"],
            features["num_tokens"],
            token_vocabulary_size=self.model.tokens.size,
            character_vocabulary_size=self.model.characters.size,
            character_mask=self.model.readings.mask(self.model.tokens, self.model.characters),
            token_parts=self.token_parts(),
            seed=seed,
            fixed_shapes=seed is not None and self.model.config.train.xla,
        )

    def build_best(self, features: task.Tensors) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the best candidates for each token, as input for a search; see language.build_best."""
        return language.build_best(
            self.model.config.language,
            features["token_ids"],
            features["num_tokens"],
            character_mask=self.model.readings.mask(self.model.tokens, self.model.characters),
            token_parts=self.token_parts(),
            count=min(self.model.characters.size, self.model.decode.candidates),
        )

    def losses(self, outputs, features, labels, training) -> metrics.Losses:
        length = tf.shape(features["token_ids"])[1]
        targets, is_paired = pair_characters(features["num_tokens"], length, labels)
        loss, weights = candidates.cross_entropy(outputs, targets)
        weights *= is_paired[:, None]  # non-candidates already have weight 0
        return metrics.Losses(tf.reduce_sum(loss * weights), {}, tf.reduce_sum(weights))

    def metrics(self, outputs, features, labels, losses) -> dict[str, metrics.Ratio]:
        num_tokens, num_characters = features["num_tokens"], labels["num_characters"]
        characters, references = candidates.best(outputs).characters, labels["character_ids"]
        num_paired = tf.where(tf.equal(num_tokens, num_characters), num_tokens, 0)
        num_labels = tf.cast(tf.reduce_sum(num_characters), tf.float32)
        return {
            self.spec.error_rate: metrics.edit_ratio(characters, num_tokens, references, num_characters),
            "unknown-fraction": metrics.unknown_fraction(references, num_characters),
            "repeated-fraction": metrics.repeated_fraction(characters, num_paired, references, num_paired),
            # Labels without a paired token, or not among that token's candidates, are not used.
            "used-label-fraction": metrics.Ratio(losses.num_labels, num_labels),
        }

    def decode(self, outputs, features) -> task.Recognition:
        """Returns each token's best character, or the best sentence if an n-gram model is used."""
        num_tokens, scorer = features["num_tokens"], self._ngram_scorer()
        if scorer:
            best = character_search.search(self.model.decode, outputs, num_tokens, scorer)
            return task.Recognition(best.characters, num_tokens, best.scores, character_probs=best.probs)
        best = candidates.best(outputs)
        scores, probs = tf.reduce_sum(best.log_probs, axis=1), tf.exp(best.log_probs)
        return task.Recognition(best.characters, num_tokens, scores, character_probs=probs)

    def score(
        self, outputs: candidates.ScoredPairs, features: task.Tensors, ids: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Scores the characters `ids` (int32 [batch, length]) in the same way as decode scores its results.

        Returns scores, float32 [batch], and the probability of each character, float32 [batch, length]. If a
        character is not among its token's candidates, its log probability is _NO_CANDIDATE.
        """
        num_tokens, scorer = features["num_tokens"], self._ngram_scorer()
        losses, weights = candidates.cross_entropy(outputs, ids)
        is_real = tf.sequence_mask(num_tokens, tf.shape(ids)[1])
        log_probs = tf.where(is_real & tf.equal(weights, 0), _NO_CANDIDATE, -losses)
        scores = tf.reduce_sum(log_probs, axis=1)
        if scorer:
            scores += scorers.score_sequences(scorer, ids, num_tokens)
        return scores, tf.exp(log_probs)

    def _ngram_scorer(self) -> Optional[scorers.NgramScorer]:
        config = self.model.decode
        if config.decoding != "beam" or not config.ngram_weight or self.model.ngram is None:
            return None
        return scorers.NgramScorer(self.model.ngram, config.ngram_weight)


def pair_characters(num_tokens: tf.Tensor, length: tf.Tensor, labels: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns each token's character, int32 [batch, length], and each utterance's weight, float32 [batch].

    The weight is 1 if the utterance has as many characters as tokens, otherwise 0.
    """
    characters = labels["character_ids"]
    missing = tf.maximum(length - tf.shape(characters)[1], 0)
    is_paired = tf.equal(num_tokens, labels["num_characters"])
    return tf.pad(characters, [[0, 0], [0, missing]])[:, :length], tf.cast(is_paired, tf.float32)
