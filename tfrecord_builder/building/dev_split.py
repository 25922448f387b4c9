"""Dev split for a corpus without one: whole speakers of train, chosen by a hash of their names.

The choice depends on the corpus alone, not on its order. Speakers are taken in the order of their hashes,
each that still fits into the fraction; if none does, the smallest one. Utterances of unknown speakers are
chosen one by one, by their ids, and sentences of text by their hanzi: equal ones stay together.
"""

from __future__ import annotations

from collections.abc import Iterator

from absl import logging

from tfrecord_builder import manifest
from tfrecord_builder.building import catalog
from tfrecord_builder.labels import normalisation


def make(listed: catalog.Catalog, fraction: float) -> None:
    """Moves a fraction of train to dev unless the corpus has a dev split, and logs how many utterances.

    A single speaker cannot be moved as a whole: then utterances are chosen by their ids.
    """
    if listed.count_utterances("dev"):
        logging.warning("--dev_fraction=%g: the corpus has a dev split; nothing is moved to it.", fraction)
        return
    num_train, note = listed.count_utterances("train"), ""
    num_groups = listed.group("train", _group_key)
    if num_groups == 1 < num_train:
        num_groups = listed.group("train", lambda utterance: utterance.utterance_id)
        note = "; all are of one speaker, who is now in train and in dev"
    if num_groups > 1:
        listed.move_groups(_choose(listed, round(fraction * num_train)), "dev")
        moved = listed.count_utterances("dev")
        message = "--dev_fraction=%g: %d of %d utterances of train (%.1f %%) are now dev%s."
        logging.warning(message, fraction, moved, num_train, 100 * moved / num_train, note)


def _group_key(utterance: manifest.Utterance) -> str:
    """Returns what must not be divided between train and dev."""
    if utterance.audio is None:
        return normalisation.normalise(utterance.text) or utterance.pinyin
    is_known = utterance.speaker.rpartition("/")[2]  # <directory>/ is a speaker without a name
    return f"speaker {utterance.speaker}" if is_known else f"utterance {utterance.utterance_id}"


def _choose(listed: catalog.Catalog, num_utterances: int) -> Iterator[bytes]:
    remaining, smallest = num_utterances, None
    for digest, size in listed.group_sizes():
        if size <= remaining:
            remaining -= size
            yield digest
        if smallest is None or size < smallest[0]:
            smallest = size, digest
    if remaining == num_utterances:
        yield smallest[1]
