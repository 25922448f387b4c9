"""What TensorBoard shows of single utterances of dev after each evaluation: picture, text and sound."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from absl import logging

from estimator_asr import estimator_api, model_directory
from estimator_asr.monitoring import (
    alignment,
    inspection,
    sample_picture,
    sample_text,
    sample_utterances,
    summaries,
)
from tfrecord_builder import dataset_info, fonts, vocabulary

_MANY_SECONDS = 5.0
_SUBSAMPLING = 4  # of every encoder, see models/encoders.py


def build(
    model: model_directory.ModelDirectory,
    infos: Sequence[dataset_info.DatasetInfo],
    data_dirs: Sequence[str],
    split: str,
) -> list[estimator_api.Exporter]:
    """Returns the exporter that writes the cards of --show_utterances; none if there is nothing to show.

    Args:
        model: whose checkpoints are looked at.
        infos, data_dirs: the data.
        split: the utterances are of this one.
    """
    settings = model.config
    count = settings.display.show_utterances
    chosen = sample_utterances.choose(infos, data_dirs, split, settings.spec, count) if count else []
    return [Cards(model, split, chosen)] if chosen else []


class Cards(estimator_api.Exporter):
    """Writes the cards beside the figures of the evaluation, into MODEL_DIR/eval."""

    name = "cards"

    def __init__(
        self,
        model: model_directory.ModelDirectory,
        split: str,
        utterances: Sequence[sample_utterances.Utterance],
    ):
        self._model = model
        self._split = split
        self._utterances = utterances
        self._inspector = None
        self._is_sound_written = False

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        started = time.monotonic()
        if self._inspector is None:
            self._inspector = inspection.Inspector(self._model)
            self._say_if_no_font_writes_them()
        self._inspector.restore(checkpoint_path)
        values = [value for utterance in self._utterances for value in self._show(utterance)]
        self._is_sound_written = True
        summaries.write_values(estimator.eval_dir(), values, int(eval_result["global_step"]))
        seconds = time.monotonic() - started
        if seconds > _MANY_SECONDS:
            logging.info(
                "showing %d utterances in TensorBoard took %.0f s; give a lower --show_utterances",
                len(self._utterances),
                seconds,
            )

    def _show(self, utterance):
        """Yields the summary values of an utterance; TensorBoard needs a tag of its own for each."""
        view, tag = self._inspector.view(utterance), f"{self._split}/{utterance.utterance_id}"
        reference, hypothesis = self._names(self._reference_ids(utterance)), self._names(view.hypothesis)
        yield summaries.text_value(f"{tag}/text", sample_text.compare(reference, hypothesis))
        if utterance.fbank is None:
            return
        picture = self._picture(utterance, view, reference, hypothesis)
        yield summaries.image_value(f"{tag}/picture", sample_picture.draw(picture))
        if not self._is_sound_written:  # it does not change
            sample_rate = self._model.config.frontend.sample_rate
            wav = sample_utterances.read_wav(utterance, sample_rate)
            if wav is not None:
                yield summaries.audio_value(f"{tag}/sound", wav, sample_rate)

    def _picture(self, utterance, view, reference, hypothesis):
        config, labels = self._model.config.frontend, utterance.token_ids
        lines = [
            utterance.utterance_id,
            "reference:  " + vocabulary.join_tokens(reference, self._model.config.token_type),
            "hypothesis: " + vocabulary.join_tokens(hypothesis, self._model.config.token_type),
        ]
        return sample_picture.Picture(
            lines,
            utterance.fbank,
            config.hop_samples / config.sample_rate,
            _SUBSAMPLING,
            reference,
            np.exp(view.log_probs[:, labels]),
            alignment.align(view.log_probs, labels, self._model.tokens.blank_id),
            view.attention,
        )

    def _reference_ids(self, utterance):
        return getattr(utterance, self._model.config.spec.labels[0])

    def _names(self, ids):
        return self._model.output_vocabulary.decode(int(each) for each in ids)

    def _say_if_no_font_writes_them(self):
        names = [name for each in self._utterances for name in self._names(self._reference_ids(each))]
        if self._model.characters is None and not fonts.can_draw("".join(names)):
            logging.info(
                "TensorBoard: no installed font has the tokens, they are drawn as boxes; %s",
                fonts.INSTALL_FONT,
            )
