"""Prediction samples: shows a few utterances in TensorBoard as pictures, text and sound."""

from __future__ import annotations

import html
import itertools
import re
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np
import tensorflow as tf
from absl import logging
from rapidfuzz.distance import Levenshtein

from estimator_asr.decoding.search import token_times
from estimator_asr.experiment import estimator_api, model_directory
from estimator_asr.inputs import shard_cache
from estimator_asr.models.tasks import tasks
from estimator_asr.monitoring import sample_picture, sample_utterances, tensorboard
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import dataset_info, marks, vocabulary
from tfrecord_builder.program import fonts

_MANY_SECONDS = 5.0  # if writing the samples takes longer, a log line says so
_COLUMNS = 16  # columns in a table of tokens; wider tables do not fit on the page
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|~])")


class PredictionSamples:
    """Writes prediction samples for --show_utterances utterances to MODEL_DIR/eval."""

    def __init__(
        self,
        model: model_directory.ModelDirectory,
        infos: Sequence[dataset_info.DatasetInfo],
        data_dirs: Sequence[str],
        split: str,
    ):
        count = model.config.display.show_utterances
        cache = shard_cache.ShardCache(model.config.input.shard_cache_gb)
        self.utterances = sample_utterances.choose(infos, data_dirs, split, model.config.spec, count, cache)
        self._model = model
        self._split = split
        self._recogniser = None
        self._is_sound_written = False

    def write(
        self, estimator: estimator_api.Estimator, checkpoint: str, metrics: Mapping[str, float]
    ) -> None:
        """Recognises the utterances with a checkpoint and writes the samples."""
        started = time.monotonic()
        if self._recogniser is None:
            self._recogniser = SampleRecogniser(self._model)
            self._warn_without_font()
        self._recogniser.restore(checkpoint)
        values = [value for utterance in self.utterances for value in self._show(utterance)]
        self._is_sound_written = True
        tensorboard.write_values(estimator.eval_dir(), values, int(metrics["global_step"]))
        seconds = time.monotonic() - started
        if seconds > _MANY_SECONDS:
            message = "showing %d utterances in TensorBoard took %.0f s; pass a smaller --show_utterances"
            logging.info(message, len(self.utterances), seconds)

    def _show(self, utterance):
        """Yields an utterance's summary values, each with its own tag, as TensorBoard requires."""
        tag = f"{self._split}/{utterance.utterance_id}"
        sample = self._recogniser.recognise(utterance)
        reference = self._reference(utterance)
        hypothesis = self._decode(utterance, sample.ids[: sample.num_ids])
        yield tensorboard.text_value(f"{tag}/text", compare_texts(reference, hypothesis))
        if sample.log_probs is None:
            return
        picture = build_picture(self._model, utterance, sample, reference, hypothesis)
        yield tensorboard.image_value(f"{tag}/picture", sample_picture.draw(picture))
        if not self._is_sound_written:  # once is enough, because the sound never changes
            sample_rate = self._model.config.frontend.sample_rate
            wav = sample_utterances.read_wav(utterance, sample_rate)
            if wav is not None:
                yield tensorboard.audio_value(f"{tag}/sound", wav, sample_rate)

    def _reference(self, utterance):
        return self._decode(utterance, utterance.values[self._model.config.spec.labels[0]])

    def _decode(self, utterance, ids):
        """Returns the ids' tokens or characters; for mark ids, the utterance's characters with marks."""
        if not self._model.config.spec.writes_marks:
            return self._model.output_vocabulary.decode(map(int, ids))
        characters, _ = marks.split(utterance.values["transcript"].decode())
        return [character + marks.MARKS[mark_id] for character, mark_id in zip(characters, ids)]

    def _warn_without_font(self):
        tokens = [token for utterance in self.utterances for token in self._reference(utterance)]
        if self._model.config.spec.reads_audio and not fonts.can_draw("".join(tokens)):
            message = "TensorBoard: no installed font has all tokens, so some are drawn as boxes; %s"
            logging.info(message, fonts.INSTALL_FONT)


class PredictionSample(NamedTuple):
    """The result for one utterance: task.Recognition without the batch axis, plus a CTC alignment."""

    ids: np.ndarray
    num_ids: int
    log_probs: Optional[np.ndarray] = None  # None without CTC
    attention: Optional[np.ndarray] = None  # computed for the reference's labels; None without a decoder
    # Start and end frames of the reference's tokens, from token_times.align; None without CTC.
    starts: Optional[np.ndarray] = None
    ends: Optional[np.ndarray] = None


class SampleRecogniser:
    """Recognises single utterances with the weights of the checkpoint that was last restored.

    The graph is separate from the training graph, is built only once, and runs on the CPU, so that training
    keeps all GPU memory.
    """

    def __init__(self, model: model_directory.ModelDirectory):
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            features = tasks.for_model(model).placeholders(batch_size=1)
            ids, num_ids = model.config.spec.labels
            labels = {
                ids: tf.compat.v1.placeholder(tf.int32, [1, None]),
                num_ids: tf.compat.v1.placeholder(tf.int32, [1]),
            }
            recognition = tasks.for_model(model).recognise(features, labels)
            self._inputs = {**features, **labels}
            fetches = {
                name: getattr(recognition, name) for name in ("ids", "num_ids", "log_probs", "attention")
            }
            self._fetches = {name: value for name, value in fetches.items() if value is not None}
            if recognition.log_probs is not None:
                times = token_times.align(
                    recognition.log_probs, recognition.num_frames, labels[ids], labels[num_ids]
                )
                self._fetches.update(starts=times.starts, ends=times.ends)
            self._saver = tf.compat.v1.train.Saver()
        config = tf.compat.v1.ConfigProto(device_count={"GPU": 0}, allow_soft_placement=True)
        self._session = tf.compat.v1.Session(graph=graph, config=config)

    def restore(self, checkpoint: str) -> None:
        """Restores the weights from a checkpoint; `checkpoint` is its path prefix."""
        with self._session.graph.as_default():
            self._saver.restore(self._session, checkpoint)

    def recognise(self, utterance: sample_utterances.SampleUtterance) -> PredictionSample:
        """Recognises an utterance; its labels are used for the alignment and the attention."""
        feed = {tensor: [utterance.values[name]] for name, tensor in self._inputs.items()}
        values = self._session.run(self._fetches, feed)
        return PredictionSample(**{name: value[0] for name, value in values.items()})


def build_picture(
    model: model_directory.ModelDirectory,
    utterance: sample_utterances.SampleUtterance,
    sample: PredictionSample,
    reference: Sequence[str],
    hypothesis: Sequence[str],
) -> sample_picture.Picture:
    """Returns the picture of a sample that has CTC output; reference and hypothesis are tokens."""
    config, labels = model.config.frontend, np.asarray(utterance.values["token_ids"])
    texts = (vocabulary.join_tokens(tokens, model.config.token_type) for tokens in (reference, hypothesis))
    num_needed = len(labels) + np.sum(labels[1:] == labels[:-1])  # equal neighbours need a frame between them
    spans = [*zip(sample.starts, sample.ends)] if num_needed <= len(sample.log_probs) else []
    return sample_picture.Picture(
        [utterance.utterance_id, *map("{}{}".format, ("reference:  ", "hypothesis: "), texts)],
        frontend.log_mel_of(utterance.values["fbank"], config),
        config.hop_samples / config.sample_rate,
        model.config.subsampling * (config.encoder.encoder.subsampling if config.encoder else 1),
        reference,
        np.exp(sample.log_probs[:, labels]),
        spans,
        sample.attention,
    )


def compare_texts(reference: Sequence[str], hypothesis: Sequence[str]) -> str:
    """Returns Markdown tables that show the reference's tokens above the hypothesis's aligned tokens.

    Wrong tokens are bold; a dot marks a missing token.
    """
    pairs = []
    for edit in Levenshtein.opcodes(reference, hypothesis):
        expected = reference[edit.src_start : edit.src_end]
        got = hypothesis[edit.dest_start : edit.dest_end]
        pairs.extend(itertools.zip_longest(expected, got))
    wrong = sum(expected != got for expected, got in pairs)
    tables = [_table(pairs[start : start + _COLUMNS]) for start in range(0, len(pairs), _COLUMNS)]
    return "\n\n".join([f"{wrong} wrong of {len(reference)}", *tables])


def _table(pairs):
    references = [_escape(expected) for expected, _ in pairs]
    hypotheses = [_escape(got) if got == expected else f"**{_escape(got)}**" for expected, got in pairs]
    rows = [["reference", *references], ["---"] * (len(pairs) + 1), ["hypothesis", *hypotheses]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _escape(token):
    return "·" if token is None else _MARKDOWN.sub(r"\\\1", html.escape(token))
