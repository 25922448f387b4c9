"""Acoustic task: converts log-mel features to tokens, with CTC and an attention decoder.

With CTC weight w, the loss is w x CTC + (1 - w) x decoder, both summed over a batch. The sum is divided by
w x (number of labels that CTC can align) + (1 - w) x (number of decoder positions, one more per utterance
than it has labels). If each part had its own divisor, gradient accumulation would need two gradients per
batch, because the counts are known only at the end of the update.
"""

from __future__ import annotations

import dataclasses
import re

import tensorflow as tf

from estimator_asr.decoding.hotwords import boosting
from estimator_asr.decoding.search import decoders, phrases, scorers, token_times
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import experiment, task_spec
from estimator_asr.models import acoustic, streaming_search
from estimator_asr.models import losses as losses_lib
from estimator_asr.models.tasks import feature_checks, metrics, task
from tfrecord_builder import errors

_PRETRAINED = "acoustic/encoder/pretrained"  # variable scope used by models/frozen_encoder.py
_EDGE = 2  # number of encoder output frames at each end of an utterance
_FRAMES_PER_LABEL = 8  # encoder output frames; 0.32 s with the default hop


class Acoustic(task.Task):
    """The acoustic task, which converts speech to tokens."""

    spec = task_spec.ACOUSTIC

    @staticmethod
    def complete(config) -> experiment.ExperimentConfig:
        chosen, stored = config.acoustic, config.frontend.encoder
        if chosen.encoder not in acoustic.ENCODERS:
            expected = ", ".join(acoustic.ENCODERS)
            raise errors.UserError(f"train: --encoder is {chosen.encoder}, expected one of {expected}")
        entry = acoustic.ENCODERS[chosen.encoder]
        applied = stored or chosen.pretrained
        feature_checks.check_features(chosen.encoder, applied, config.frontend)
        if chosen.local_ctc_weight and (entry.is_pretrained or chosen.encoder == "cnn"):
            raise errors.UserError(
                f"train: --local_ctc_weight is {chosen.local_ctc_weight:g}, but --encoder={chosen.encoder} "
                "does not provide frames computed before an attention layer; leave out --local_ctc_weight"
            )
        feature_checks.check_chunks(chosen, entry, config.frontend)
        if not entry.is_pretrained:
            return dataclasses.replace(config, subsampling=entry.subsampling)
        feature_checks.check_pretrained(chosen, applied, config.frontend)
        chosen = dataclasses.replace(chosen, pretrained=applied)
        factor = 1 if stored else applied.encoder.subsampling
        return dataclasses.replace(config, acoustic=chosen, subsampling=factor * entry.subsampling)

    def build(self, features, labels=None, seed=None, stream=None) -> acoustic.AcousticOutputs:
        return acoustic.build(
            self.model.config.acoustic,
            features["fbank"],
            features["num_frames"],
            num_classes=self.model.tokens.num_classes,
            token_parts=self.token_parts(),
            token_ids=labels and labels["token_ids"],
            num_tokens=labels and labels["num_tokens"],
            seed=seed,
            stream=stream,
        )

    def losses(self, outputs, features, labels, training) -> metrics.Losses:
        config, ctc = self.model.config.acoustic, ctc_part(outputs, labels)
        parts = {"ctc-loss": ctc}
        if outputs.local_logits is not None:
            local = ctc_part(outputs._replace(ctc_logits=outputs.local_logits), labels)
            parts["local-ctc-loss"], weight = local, config.local_ctc_weight if training else 0.0
            ctc = ctc._replace(numerator=(1.0 - weight) * ctc.numerator + weight * local.numerator)
        if outputs.decoder_logits is None:
            return metrics.Losses(ctc.numerator, parts, ctc.denominator)
        targets, weights = _decoder_positions(outputs, labels)
        smoothing = config.label_smoothing if training else 0.0
        loss = losses_lib.cross_entropy(outputs.decoder_logits, targets, weights, smoothing)
        decoder = metrics.Ratio(tf.reduce_sum(loss), tf.reduce_sum(weights))
        parts["decoder-loss"] = decoder
        if training and config.softmax != config_lib.FULL:
            # The full cross-entropy above is computed only in steps that fetch it.
            sample = self._draw(features["seed"])
            loss = losses_lib.SAMPLED[config.softmax](outputs.scorer, targets, weights, sample)
            decoder = metrics.Ratio(tf.reduce_sum(loss), tf.reduce_sum(weights))
            parts[f"{config.softmax}-loss"] = decoder
        weight = config.ctc_weight
        total, num_labels = (
            weight * of_ctc + (1.0 - weight) * of_decoder for of_ctc, of_decoder in zip(ctc, decoder)
        )
        return metrics.Losses(total, parts, num_labels)

    def _draw(self, seed) -> losses_lib.SampledClasses:
        """Samples the classes over which a step's decoder loss is computed."""
        # The end symbol is treated as the most frequent class, because every utterance has one.
        by_frequency = [self.model.tokens.blank_id, *self.model.config.tokens_by_frequency]
        probabilities = losses_lib.log_uniform(by_frequency)
        return losses_lib.draw(probabilities, self.model.config.acoustic.num_sampled, seed)

    def metrics(self, outputs, features, labels, losses) -> dict[str, metrics.Ratio]:
        """Returns metrics, keyed by tag; greedy decoding runs only if a metric that needs it is fetched."""
        ids, num_ids = decoders.best_path(outputs.ctc_logits, outputs.num_frames)
        references = labels["token_ids"], labels["num_tokens"]
        ratios = {
            self.spec.error_rate: metrics.edit_ratio(ids, num_ids, *references),
            "unknown-fraction": metrics.unknown_fraction(*references),
            **frame_fractions(outputs.ctc_logits, outputs.num_frames),
            "length-ratio": metrics.length_ratio(num_ids, labels["num_tokens"]),
            "repeated-fraction": metrics.repeated_fraction(ids, num_ids, *references),
            # Utterances that have more labels than CTC can align with their frames.
            "too-long-fraction": metrics.fraction_of(
                ~losses_lib.has_alignment(outputs.num_frames, *references), labels["num_tokens"] > 0
            ),
        }
        if outputs.decoder_logits is not None:
            ratios["teacher-forced-error-rate"] = teacher_forced_errors(outputs.decoder_logits, labels)
        return ratios

    def decode(self, outputs, features) -> task.Recognition:
        """Returns the best hypotheses from the search that the model's DecodeConfig specifies.

        `features` may contain hotword_ids and hotword_boosts, as in phrases.Phrases.
        """
        config, logits, num_frames = self.model.decode, outputs.ctc_logits, outputs.num_frames
        search_scorers = self._list_scorers(features)
        n_best = decoders.DECODERS[config.decoding](config, logits, num_frames, search_scorers)
        if config.attention_weight:
            n_best = n_best.reranked(self._attend_to(outputs.encoding, n_best.ids, n_best.num_tokens))
        heads = outputs.attention
        return task.Recognition(
            *n_best.best(),
            scores=n_best.acoustic_scores[:, 0],
            log_probs=tf.nn.log_softmax(tf.cast(logits, tf.float32)),
            attention=None if heads is None else tf.reduce_mean(heads, axis=1),
            num_frames=num_frames,
            n_best=n_best,
            encoding=outputs.encoding,
            scorers=search_scorers,
        )

    def decode_stream(
        self, outputs, features, is_last, stream, max_tokens
    ) -> tuple[task.Recognition, token_times.TokenTimes]:
        """Continues the search from a stream's state; see streaming_search.search.

        The attention decoder is not used, because it needs whole recordings.
        """
        args = self.model.decode, outputs.ctc_logits, outputs.num_frames, is_last, stream, max_tokens
        n_best, times = streaming_search.search(*args, self._list_scorers(features))
        scores = n_best.acoustic_scores[:, 0]
        return task.Recognition(*n_best.best(), scores=scores, n_best=n_best), times

    def score_beside_ctc(
        self, recognition: task.Recognition, ids: tf.Tensor, num_tokens: tf.Tensor
    ) -> tf.Tensor:
        """Returns the scores that decode adds to the CTC scores, float32 [batch, num_sequences].

        ids is int32 [batch, num_sequences, max_tokens], and num_tokens is int32 [batch, num_sequences].
        """
        shape = tf.shape(num_tokens)
        rows = tf.reshape(ids, [-1, tf.shape(ids)[2]]), tf.reshape(num_tokens, [-1])
        total = tf.zeros(shape)
        for scorer in recognition.scorers:
            total += tf.reshape(scorers.score_sequences(scorer, *rows), shape)
        if self.model.decode.attention_weight:
            total += self._attend_to(recognition.encoding, ids, num_tokens)
        return total

    def _attend_to(self, encoding, ids, num_tokens):
        """Returns the attention decoder's log probabilities for sequences, times attention_weight."""
        config, num_classes = self.model.config.acoustic, self.model.tokens.num_classes
        log_probs = acoustic.score(config, encoding, ids, num_tokens, num_classes, self.token_parts())
        return self.model.decode.attention_weight * log_probs

    def _list_scorers(self, features: task.Tensors) -> list[scorers.Scorer]:
        """Returns the scorers whose scores the search adds to the CTC scores."""
        config, search_scorers = self.model.decode, []
        if config.token_bonus:
            search_scorers.append(scorers.TokenBonus(config.token_bonus))
        if config.ngram_weight and self.model.ngram is not None:
            search_scorers.append(scorers.NgramScorer(self.model.ngram, config.ngram_weight))
        if "hotword_ids" in features:
            hotwords = phrases.Phrases(features["hotword_ids"], features["hotword_boosts"])
            search_scorers.append(boosting.HotwordScorer(hotwords, self.model.tokens.size))
        return search_scorers

    def rate_of(self, variable: str) -> float:
        """Returns a learning rate factor, smaller for lower blocks (Howard and Ruder, 2018, section 3.2)."""
        if not variable.startswith(f"{_PRETRAINED}/"):
            return 1.0
        block = re.search(r"/block_(\d+)/", variable)
        layers, config = self.model.config.acoustic.pretrained.encoder.layers, self.model.config.optimizer
        below = layers - int(block[1]) if block else 0  # the final layer norm counts as the last block
        return config.pretrained_rate * config.pretrained_rate_decay**below


def ctc_part(outputs: acoustic.AcousticOutputs, labels: dict) -> metrics.Ratio:
    """Returns the CTC loss and the number of labels, excluding utterances that cannot be aligned.

    An utterance without labels counts as if it had about as many labels as speech of the same length.
    """
    token_ids, num_tokens = labels["token_ids"], labels["num_tokens"]
    loss = losses_lib.ctc_loss(outputs.ctc_logits, outputs.num_frames, token_ids, num_tokens)
    is_possible = losses_lib.has_alignment(outputs.num_frames, token_ids, num_tokens)
    counted = tf.where(num_tokens > 0, num_tokens, outputs.num_frames // _FRAMES_PER_LABEL)
    num_labels = tf.reduce_sum(tf.where(is_possible, counted, 0))
    return metrics.Ratio(tf.reduce_sum(loss), tf.cast(num_labels, tf.float32))


def _decoder_positions(outputs, labels):
    """Returns targets and weights for the decoder's positions: one for each label, and one for the end."""
    end_id = outputs.decoder_logits.shape[-1] - 1
    targets, weights = acoustic.decoder_targets(labels["token_ids"], labels["num_tokens"], end_id)
    # Rows without frames only fill up a replica's batch, so their end symbols do not count.
    return targets, weights * tf.cast(outputs.num_frames > 0, tf.float32)[:, None]


def frame_fractions(logits: tf.Tensor, num_frames: tf.Tensor) -> dict[str, metrics.Ratio]:
    """Returns the fraction of frames whose best class is the blank, and the edge fraction.

    The edge fraction is the fraction of non-blank frames that are among an utterance's first two or last two
    frames, where a model may emit tokens by mistake.
    """
    position, length = tf.range(tf.shape(logits)[1])[None], num_frames[:, None]
    is_blank = tf.equal(tf.argmax(logits, axis=-1), logits.shape[-1] - 1)
    is_edge = (position < _EDGE) | (position >= length - _EDGE)
    is_frame = position < length
    return {
        "blank-fraction": metrics.fraction_of(is_blank, is_frame),
        "edge-fraction": metrics.fraction_of(is_edge, ~is_blank & is_frame),
    }


def teacher_forced_errors(logits: tf.Tensor, labels: dict) -> metrics.Ratio:
    """Returns the error rate, including the end symbol, of a decoder that is fed the correct previous labels.

    Logits are float32 [batch, max_tokens + 1, num_classes]. Utterances without labels do not count.
    """
    num_tokens = labels["num_tokens"]
    targets, weights = acoustic.decoder_targets(labels["token_ids"], num_tokens, logits.shape[-1] - 1)
    is_counted = (weights > 0) & (num_tokens > 0)[:, None]
    is_wrong = tf.not_equal(tf.argmax(logits, -1, tf.int32), metrics.mark_unknown(targets))
    return metrics.fraction_of(is_wrong, is_counted)
