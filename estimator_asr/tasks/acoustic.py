"""Acoustic task: log-mel features to tokens, by CTC and an attention decoder.

With the weight w of CTC, the loss is w x CTC + (1 - w) x decoder, both summed over a batch. It is divided by
w x the labels that CTC can align + (1 - w) x the positions of the decoder, which has one more per utterance.
Separate divisors would need two gradients of each batch where gradients are accumulated, because the counts
are known only at the end of the update.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import experiment, task_spec
from estimator_asr.hotwords import boosting
from estimator_asr.models import acoustic, losses
from estimator_asr.models.decoding import decoders, greedy, ngram, phrases, scorers
from estimator_asr.tasks import metrics, task
from tfrecord_builder import errors

_PRETRAINED = "acoustic/encoder/pretrained"  # scope of models/pretrained_encoders.py
_EDGE = 2  # frames of the encoder
_ATTENTION = "cross_attention/attention_weights"  # name of the op in models/layers.py


class Acoustic(task.Task):
    """Speech to tokens."""

    spec = task_spec.ACOUSTIC
    uses_ctc = True

    @staticmethod
    def complete(config) -> experiment.ExperimentConfig:
        chosen = config.acoustic
        if chosen.encoder not in acoustic.ENCODERS:
            expected = ", ".join(acoustic.ENCODERS)
            raise errors.UserError(f"train: --encoder is {chosen.encoder}, expected one of {expected}")
        entry, stored = acoustic.ENCODERS[chosen.encoder], config.frontend.encoder
        check_features(chosen, entry, config.frontend)
        if not entry.is_pretrained:
            return dataclasses.replace(config, subsampling=entry.subsampling)
        applied = stored or chosen.pretrained
        check_blocks(chosen, applied)
        chosen = dataclasses.replace(chosen, pretrained=applied)
        factor = 1 if stored else applied.encoder.subsampling
        return dataclasses.replace(config, acoustic=chosen, subsampling=factor * entry.subsampling)

    def build(self, features, labels=None, seed=None) -> acoustic.AcousticOutputs:
        return acoustic.build(
            self.model.config.acoustic,
            features["fbank"],
            features["num_frames"],
            num_classes=self.model.tokens.num_classes,
            token_parts=self.token_parts(),
            token_ids=labels and labels["token_ids"],
            num_tokens=labels and labels["num_tokens"],
            seed=seed,
        )

    def losses(self, outputs, features, labels, training, ctc_kernel) -> metrics.Losses:
        ctc = ctc_part(outputs, labels, ctc_kernel)
        if outputs.decoder_logits is None:
            return metrics.Losses(ctc.numerator, {"ctc-loss": ctc}, ctc.denominator)
        config = self.model.config.acoustic
        decoder = decoder_part(outputs, labels, config.label_smoothing if training else 0.0)
        weight = config.ctc_weight
        parts = {"ctc-loss": ctc, "decoder-loss": decoder}
        if training and config.softmax != config_lib.FULL:
            # The other one runs only where it is shown.
            decoder = self._sampled_part(outputs, features, labels)
            parts[f"{config.softmax}-loss"] = decoder
        total, num_labels = (weight * one + (1.0 - weight) * other for one, other in zip(ctc, decoder))
        return metrics.Losses(total, parts, num_labels)

    def _sampled_part(self, outputs, features, labels) -> metrics.Ratio:
        """Returns the decoder's loss over the classes that this step draws."""
        from estimator_asr.models import sampled_losses

        config = self.model.config
        # The end symbol of each utterance is as frequent as the most frequent tokens.
        by_frequency = [self.model.tokens.blank_id, *config.tokens_by_frequency]
        probabilities = sampled_losses.log_uniform(by_frequency)
        sample = sampled_losses.draw(probabilities, config.acoustic.num_sampled, features["seed"])
        targets, weights = decoder_positions(outputs, labels)
        loss = sampled_losses.LOSSES[config.acoustic.softmax](outputs.scorer, targets, weights, sample)
        return metrics.Ratio(tf.reduce_sum(loss), tf.reduce_sum(weights))

    def metrics(self, outputs, features, labels, losses) -> dict[str, metrics.Ratio]:
        """Returns ratios by tag; greedy decoding runs only where what needs it is fetched."""
        found = greedy.greedy_ctc(None, outputs.ctc_logits, outputs.num_frames).best()
        references = labels["token_ids"], labels["num_tokens"]
        ratios = {
            self.spec.error_rate: metrics.edit_ratio(*found, *references),
            "unknown-fraction": metrics.unknown_fraction(*references),
            "blank-fraction": blank_fraction(outputs.ctc_logits, outputs.num_frames),
            "edge-fraction": edge_fraction(outputs.ctc_logits, outputs.num_frames),
            "length-ratio": metrics.length_ratio(found[1], labels["num_tokens"]),
            "repeated-fraction": metrics.repeated_fraction(*found, *references),
            "too-long-fraction": too_long_fraction(outputs.num_frames, *references),
        }
        if outputs.decoder_logits is not None:
            ratios["teacher-forced-error-rate"] = teacher_forced_errors(outputs.decoder_logits, labels)
        return ratios

    def decode(self, outputs, features) -> task.Recognition:
        """Searches by the DecodeConfig of the model directory.

        Features may have hotword_ids and hotword_boosts, the fields of phrases.Phrases.
        """
        config, logits, num_frames = self.model.decode, outputs.ctc_logits, outputs.num_frames
        attention = _find_attention(outputs)
        found = decoders.DECODERS[config.decoding](config, logits, num_frames, self._scorers(features))
        if config.attention_weight:
            found = found.reranked(config.attention_weight * self._attend(outputs.encoding, found))
        return task.Recognition(
            *found.best(),
            found.acoustic_scores[:, 0],
            tf.nn.log_softmax(tf.cast(logits, tf.float32)),
            attention,
            num_frames,
            found,
            encoding=outputs.encoding,
        )

    def _attend(self, encoding, found) -> tf.Tensor:
        """Returns the log probabilities of hypotheses by the attention decoder, float32 [batch, num_best]."""
        return acoustic.score(
            self.model.config.acoustic,
            encoding,
            found.ids,
            found.num_tokens,
            self.model.tokens.num_classes,
            self.token_parts(),
        )

    def _scorers(self, features) -> list[scorers.Scorer]:
        """Returns what the search adds to the scores of CTC."""
        config, chosen = self.model.decode, []
        if config.token_bonus:
            chosen.append(scorers.TokenBonus(config.token_bonus))
        if config.ngram_weight and self.model.ngram is not None:
            chosen.append(ngram.NgramScorer(self.model.ngram, config.ngram_weight))
        if "hotword_ids" in features:
            favoured = phrases.Phrases(features["hotword_ids"], features["hotword_boosts"])
            chosen.append(boosting.HotwordScorer(favoured, self.model.tokens.size))
        return chosen

    def rate_of(self, variable: str) -> float:
        """Lower for pretrained blocks, and by layer-wise decay (Howard and Ruder 2018, section 3.2)."""
        if not variable.startswith(f"{_PRETRAINED}/"):
            return 1.0
        block = re.search(r"/block_(\d+)/", variable)
        layers, config = self.model.config.acoustic.pretrained.encoder.layers, self.model.config.optimizer
        below = layers - int(block[1]) if block else 0  # the last layer norm comes after all blocks
        return config.pretrained_rate * config.pretrained_rate_decay**below


def check_features(config, entry, frontend) -> None:
    """Raises UserError if an encoder cannot read the features of the data.

    Args:
        config: AcousticConfig.
        entry: of acoustic.ENCODERS.
        frontend: FrontendConfig of the data.
    """
    if not entry.is_pretrained:
        if frontend.encoder:
            raise errors.UserError(
                f"train: --encoder is {config.encoder}, expected whisper, because the data hold its outputs; "
                "pass --encoder=whisper, or the data that were encoded"
            )
        return
    applied = frontend.encoder or config.pretrained
    if applied is None:
        raise errors.UserError(
            f"train: --encoder={config.encoder} has no weights, expected encoded data or "
            "--warm_start_from=WHISPER; run python -m estimator_asr.encode first"
        )
    got, want = (frontend.frontend, frontend.num_mel_bins), ("whisper_log_mel", applied.encoder.num_mel_bins)
    if got != want:
        raise errors.UserError(
            f"train: features are {got[0]} of {got[1]} bins, expected {want[0]} of {want[1]} for "
            f"--encoder={config.encoder}; build the data with --frontend={want[0]} --num_mel_bins={want[1]}"
        )


def check_blocks(config, applied) -> None:
    """Raises UserError if the blocks to train do not follow the last one that is applied."""
    last = applied.encoder.layers - config.trainable_blocks
    if config.trainable_blocks and applied.layers[-1] != last:
        raise errors.UserError(
            f"train: --trainable_blocks is {config.trainable_blocks}, expected "
            f"{applied.encoder.layers - applied.layers[-1]}, because the data hold the outputs of block "
            f"{applied.layers[-1]} of {applied.encoder.layers}; encode them with --layers=...,{last}"
        )


def ctc_part(outputs: acoustic.AcousticOutputs, labels: dict, ctc_kernel: str) -> metrics.Ratio:
    """Returns the CTC loss over the labels; an utterance that cannot be aligned does not count."""
    token_ids, num_tokens = labels["token_ids"], labels["num_tokens"]
    loss = losses.ctc_loss(outputs.ctc_logits, outputs.num_frames, token_ids, num_tokens, ctc_kernel)
    is_possible = losses.has_alignment(outputs.num_frames, token_ids, num_tokens)
    num_labels = tf.reduce_sum(tf.where(is_possible, num_tokens, 0))
    return metrics.Ratio(tf.reduce_sum(loss), tf.cast(num_labels, tf.float32))


def decoder_part(outputs: acoustic.AcousticOutputs, labels: dict, label_smoothing: float) -> metrics.Ratio:
    """Returns the decoder's cross-entropy over its positions."""
    targets, weights = decoder_positions(outputs, labels)
    loss = losses.cross_entropy(outputs.decoder_logits, targets, weights, label_smoothing)
    return metrics.Ratio(tf.reduce_sum(loss), tf.reduce_sum(weights))


def decoder_positions(outputs: acoustic.AcousticOutputs, labels: dict) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns targets and weights of the decoder's positions: one for each label, and one for the end."""
    end_id = outputs.decoder_logits.shape[-1] - 1
    targets, weights = acoustic.decoder_targets(labels["token_ids"], labels["num_tokens"], end_id)
    # A row without frames only fills the batch of a replica: its end symbol does not count.
    return targets, weights * tf.cast(outputs.num_frames > 0, tf.float32)[:, None]


def blank_fraction(logits: tf.Tensor, num_frames: tf.Tensor) -> metrics.Ratio:
    """Returns the fraction of frames whose best class is the blank; padding does not count."""
    is_blank = tf.equal(tf.argmax(logits, axis=-1), logits.shape[-1] - 1)
    return metrics.fraction_of(is_blank, tf.sequence_mask(num_frames, tf.shape(logits)[1]))


def edge_fraction(logits: tf.Tensor, num_frames: tf.Tensor) -> metrics.Ratio:
    """Returns the fraction of frames whose best class is a token that are among the first or last two."""
    position, length = tf.range(tf.shape(logits)[1])[None], num_frames[:, None]
    is_token = tf.not_equal(tf.argmax(logits, axis=-1), logits.shape[-1] - 1)
    is_edge = (position < _EDGE) | (position >= length - _EDGE)
    return metrics.fraction_of(is_edge, is_token & (position < length))


def too_long_fraction(num_frames: tf.Tensor, token_ids: tf.Tensor, num_tokens: tf.Tensor) -> metrics.Ratio:
    """Returns the fraction of utterances that have more labels than frames for CTC to align them."""
    is_too_long = tf.logical_not(losses.has_alignment(num_frames, token_ids, num_tokens))
    return metrics.fraction_of(is_too_long, num_tokens > 0)


def teacher_forced_errors(logits: tf.Tensor, labels: dict) -> metrics.Ratio:
    """Returns the decoder's error rate where it is given all previous labels; the end symbol counts.

    Logits are float32 [batch, max_tokens + 1, num_classes]. Utterances without labels do not count.
    """
    num_tokens = labels["num_tokens"]
    targets, weights = acoustic.decoder_targets(labels["token_ids"], num_tokens, logits.shape[-1] - 1)
    is_counted = (weights > 0) & (num_tokens > 0)[:, None]
    is_wrong = tf.not_equal(tf.argmax(logits, -1, tf.int32), metrics.mark_unknown(targets))
    return metrics.fraction_of(is_wrong, is_counted)


def _find_attention(outputs) -> Optional[tf.Tensor]:
    if outputs.decoder_logits is None:
        return None
    operations = outputs.decoder_logits.graph.get_operations()
    weights = [each for each in operations if each.name.endswith(_ATTENTION)][-1].outputs[0]
    return tf.reduce_mean(tf.cast(weights, tf.float32), axis=1)  # [batch, heads, tokens + 1, frames] before
