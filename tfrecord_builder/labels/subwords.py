"""The pieces of words of a build, for the token type bpe: taken over, or learnt from the corpus."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from tfrecord_builder import manifest
from tfrecord_builder.labels import bpe, labelling, vocabularies


def make(
    label_config: labelling.LabelConfig,
    vocabulary_config: vocabularies.VocabularyConfig,
    training_utterances: Iterable[manifest.Utterance],
) -> Optional[bytes]:
    """Gives a sentencepiece model, frozen or of the train split's transcripts; None for another token type.

    Raises:
      UserError: the frozen one is missing, or none can be learnt.
    """
    frozen = vocabularies.load_bpe(vocabulary_config, label_config.token_type)
    if frozen is not None or label_config.token_type != "bpe":
        return frozen
    transcripts = (labelling.make_transcript(each, label_config) for each in training_utterances)
    return bpe.train(transcripts, label_config.bpe_vocab_size)
