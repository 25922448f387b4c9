"""The pieces of words of a build, for the unit bpe: taken over, or learnt from the corpus."""

from __future__ import annotations

from typing import Optional

from tfrecord_builder.building import catalog
from tfrecord_builder.labels import bpe, labelling, vocabularies


def make(
    label_config: labelling.LabelConfig,
    vocabulary_config: vocabularies.VocabularyConfig,
    spooled: catalog.Spool,
) -> Optional[bytes]:
    """Gives a sentencepiece model, frozen or of the train split's transcripts; None for another unit.

    Raises:
      UserError: the frozen one is missing, or none can be learnt.
    """
    frozen = vocabularies.load_bpe(vocabulary_config, label_config.unit)
    if frozen is not None or label_config.unit != "bpe":
        return frozen
    transcripts = (labelling.make_transcript(each, label_config) for each in spooled.utterances("train"))
    return bpe.train(transcripts, label_config.bpe_size)
