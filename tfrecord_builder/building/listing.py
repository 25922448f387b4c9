"""Adds a corpus to the catalog of a build, and moves part of train to dev if --dev_fraction is set."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.building import catalog
from tfrecord_builder.corpora import registry, rows
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import normalisation
from tfrecord_builder.program import progress_bar

_LIST_SIZE = 10_000  # utterances per list; it is not worth starting a worker for shorter lists


def list_corpus(
    layout: str,
    corpus_dirs: Sequence[str],
    corpus: catalog.Catalog,
    dev_fraction: float = 0.0,
    excluded: Collection[str] = (),
) -> None:
    """Adds the utterances in the directories to the catalog; makes a dev split if dev_fraction is not 0.

    Utterances whose ids are in `excluded` are added only to the rejected utterances.

    Raises UserError if a directory cannot be used, there are no utterances, or an id is invalid or duplicate.
    """
    utterances = _leave_out(excluded, registry.list_utterances(layout, corpus_dirs), corpus)
    remaining = iter(progress_bar.ProgressBar(utterances, unit="utt", desc="listing"))
    while corpus.add_list(itertools.islice(remaining, _LIST_SIZE)):
        pass
    where = ", ".join(corpus_dirs)
    if not corpus.count_utterances():
        raise errors.UserError(
            f"--exclude: the file excludes all utterances in {where}; check the file."
            if corpus.count_candidates()
            else f"--corpus_dir: {where} contains no utterances; check --corpus and the corpus files."
        )
    if dev_fraction:
        make_dev_split(corpus, dev_fraction)
    if not corpus.count_utterances("dev"):
        logging.warning(
            "%s: the corpus has no dev split, so the model cannot be evaluated during training; "
            "pass --dev_fraction=0.05 to move part of the train split to dev.",
            where,
        )


def read_excluded(path: str) -> frozenset[str]:
    """Reads the id column of a table, such as the suspects.tsv of estimator_asr.align; "" means no table.

    Raises UserError if the table cannot be read or has no such column.
    """
    if not path:
        return frozenset()
    try:
        return frozenset(row["id"].strip() for _, row in rows.read_table(path, (("id",),))) - {""}
    except errors.UserError as error:
        raise errors.UserError(f"--exclude: {error}") from None


def _leave_out(
    excluded: Collection[str], utterances: Iterable[manifest.Utterance], corpus: catalog.Catalog
) -> Iterator[manifest.Utterance]:
    """Yields the utterances that are not excluded, and rejects the others."""
    unknown = set(excluded)
    for utterance in utterances:
        if utterance.utterance_id in excluded:
            unknown.discard(utterance.utterance_id)
            corpus.reject([(utterance.utterance_id, utterance.split, catalog.EXCLUDED, utterance.audio)])
        else:
            yield utterance
    if unknown:
        message = "--exclude: %d ids in the file are not in the corpus: %s"
        logging.warning(message, len(unknown), errors.list_examples(unknown))


def make_dev_split(corpus: catalog.Catalog, fraction: float) -> None:
    """Moves a fraction of train to dev and logs how many utterances it moved, unless a dev split exists.

    All utterances by a speaker are moved together. Speakers are sorted by a hash of their names, and each
    speaker who still fits into the fraction is moved. If no speaker fits, the speaker with the fewest
    utterances is moved. If speakers are unknown or there is only one, utterances are moved individually. In a
    text corpus, identical sentences are moved together. The choice depends on the utterances, but not on
    their order.
    """
    if corpus.count_utterances("dev"):
        logging.warning("--dev_fraction=%g is ignored, because the corpus has a dev split.", fraction)
        return
    num_train, note = corpus.count_utterances("train"), ""
    num_groups = corpus.group("train", _group_key)
    if num_groups == 1 < num_train:
        num_groups = corpus.group("train", lambda utterance: utterance.utterance_id)
        note = "; all have the same speaker, who is now in both train and dev"
    if num_groups > 1:
        corpus.move_groups(_choose(corpus, round(fraction * num_train)), "dev")
        moved = corpus.count_utterances("dev")
        message = "--dev_fraction=%g: moved %d of %d utterances (%.1f %%) from train to dev%s."
        logging.warning(message, fraction, moved, num_train, 100 * moved / num_train, note)


def _group_key(utterance: manifest.Utterance) -> str:
    """Returns the key of an utterance; utterances with the same key must stay in the same split."""
    if utterance.audio is None:
        return normalisation.normalise(utterance.text) or utterance.pinyin
    is_known = utterance.speaker.rpartition("/")[2]  # an unknown speaker is "<directory>/"
    return f"speaker {utterance.speaker}" if is_known else f"utterance {utterance.utterance_id}"


def _choose(corpus: catalog.Catalog, num_utterances: int) -> Iterator[bytes]:
    remaining, smallest = num_utterances, None
    for digest, size in corpus.group_sizes():
        if size <= remaining:
            remaining -= size
            yield digest
        if smallest is None or size < smallest[0]:
            smallest = size, digest
    if remaining == num_utterances:
        yield smallest[1]
