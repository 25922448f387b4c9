"""A dev split for a corpus that has none: whole speakers of train, chosen by a hash of their names.

The choice depends on the corpus alone, not on its order. Speakers are taken in the order of their hashes,
each that fits into what is left of the fraction; if none does, the smallest one. Utterances of unknown
speakers are chosen one by one, by their ids, and sentences of text by their hanzi: equal ones stay together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from absl import logging

from tfrecord_builder import manifest
from tfrecord_builder.building import catalog
from tfrecord_builder.labels import tokenisation

_ONE_SPEAKER = "; all are of one speaker, who is now in train and in dev"


def make(spooled: catalog.Spool, fraction: float) -> None:
    """Moves a fraction of train to dev if there is no dev split, and says how much that is.

    A single speaker cannot be moved as a whole: then utterances are chosen by their ids.
    """
    if spooled.count_utterances("dev"):
        logging.warning("--dev_fraction=%g: the corpus has a dev split; nothing is moved to it.", fraction)
        return
    num_train, note = spooled.count_utterances("train"), ""
    num_groups = spooled.group("train", _group_of)
    if num_groups == 1 < num_train:
        num_groups, note = spooled.group("train", lambda utterance: utterance.utterance_id), _ONE_SPEAKER
    if num_groups > 1:
        spooled.move_groups(_choose(spooled.group_sizes(), round(fraction * num_train)), "dev")
        if not spooled.count_utterances("dev"):
            spooled.move_groups([spooled.smallest_group()], "dev")
        moved = spooled.count_utterances("dev")
        message = "--dev_fraction=%g: %d of %d utterances of train (%.1f %%) are now dev%s."
        logging.warning(message, fraction, moved, num_train, 100 * moved / num_train, note)


def _group_of(utterance: manifest.Utterance) -> str:
    """Names what must not be divided between train and dev."""
    if utterance.audio is None:
        return tokenisation.normalise(utterance.text) or utterance.pinyin
    is_known = utterance.speaker.rpartition("/")[2]  # <directory>/ is a speaker without a name
    return f"speaker {utterance.speaker}" if is_known else f"utterance {utterance.utterance_id}"


def _choose(sizes: Iterable[tuple[bytes, int]], most: int) -> Iterator[bytes]:
    """Yields the digests of the groups that fit into so many utterances, in the order in which they come."""
    left = most
    for digest, size in sizes:
        if size <= left:
            left -= size
            yield digest
