"""A trial: posteriors decoded with some settings, and the errors of the transcripts."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Optional

import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import acoustic as acoustic_lib
from estimator_asr.models import encoders
from estimator_asr.saved_model import cascade, recogniser, trained_model
from estimator_asr.scoring import utterances
from estimator_asr.tasks import registry
from estimator_asr.tuning import posteriors as posteriors_lib


@dataclasses.dataclass(frozen=True)
class Transcribed:
    """An utterance: its reference and the outputs of the cascade, see cascade.transcribe."""

    pronunciation: str
    transcript: str
    found: dict

    def edits(self, measure: str) -> utterances.ScoredUtterance:
        """Returns the utterance scored in tokens or characters, a key of utterances.MEASURES."""
        is_tokens = measure == utterances.TOKEN_ERROR_RATE
        reference = self.pronunciation if is_tokens else self.transcript
        return utterances.score(
            measure, "", "", reference, self.found["pinyin" if is_tokens else "transcript"]
        )


def untune(saved: config_lib.DecodeConfig) -> config_lib.DecodeConfig:
    """Returns settings with defaults in place of what tune finds."""
    kept = {name: getattr(saved, name) for name in ("beam_width", "candidates", "skipped_blank")}
    return config_lib.DecodeConfig(**kept)


@dataclasses.dataclass(frozen=True)
class Bench:
    """What stays the same in all trials."""

    acoustic: trained_model.TrainedModel
    language: Optional[trained_model.TrainedModel]
    batches: Sequence[posteriors_lib.Posteriors]

    def untuned(self) -> config_lib.DecodeConfig:
        """Returns the settings of the model directory that are not tuned, and defaults of the others."""
        return untune(self.acoustic.model.decode)

    def run(self, config: config_lib.DecodeConfig, with_language: bool = True) -> list[Transcribed]:
        """Decodes all batches with the settings."""
        language = self.language if with_language else None
        with contextlib.closing(tf.compat.v1.Session(graph=tf.Graph())) as session:
            built = self._build(session, dataclasses.replace(self.acoustic.model, decode=config), language)
            return [utterance for batch in self.batches for utterance in _decode(built, batch)]

    def _build(self, session, acoustic, language) -> recogniser.Recogniser:
        with session.graph.as_default():
            inputs = {
                "log_probs": tf.compat.v1.placeholder(tf.float32, [None, None, acoustic.num_classes]),
                "num_frames": tf.compat.v1.placeholder(tf.int32, [None]),
                "encoding": tf.compat.v1.placeholder(
                    tf.float32, [None, None, self.batches[0].encoding.shape[2]]
                ),
            }
            found = registry.of(acoustic).decode(_outputs(**inputs), {})
            written = cascade.write(acoustic, language and language.model, found)
            initialize_tables = tf.compat.v1.tables_initializer()
            cascade.restore(session, acoustic, self.acoustic.checkpoint)
            if language:
                cascade.restore(session, language.model, language.checkpoint)
            session.run(initialize_tables)
        return recogniser.Recogniser(session, inputs, written)


def _outputs(log_probs, num_frames, encoding) -> acoustic_lib.AcousticOutputs:
    mask = tf.sequence_mask(num_frames, tf.shape(encoding)[1], tf.float32)
    return acoustic_lib.AcousticOutputs(
        log_probs, num_frames, None, encoders.Encoding(encoding, num_frames, mask)
    )


def _decode(built: recogniser.Recogniser, batch: posteriors_lib.Posteriors) -> Iterator[Transcribed]:
    found = built.run(batch._asdict())
    for i, texts in enumerate(zip(batch.pronunciations, batch.transcripts)):
        yield Transcribed(*texts, {name: values[i] for name, values in found.items()})


def count_errors(transcribed: Sequence[Transcribed], measure: str) -> int:
    """Returns the sum of the edits."""
    return sum(each.edits(measure).edits.errors for each in transcribed)


def count_labels(transcribed: Sequence[Transcribed], measure: str) -> int:
    """Returns the sum of the reference lengths."""
    return sum(each.edits(measure).edits.reference_length for each in transcribed)
