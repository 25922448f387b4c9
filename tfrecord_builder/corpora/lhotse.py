"""Lhotse manifests: cuts, or else recordings with their supervisions; .jsonl or .json, also with .gz.

Layout: Lhotse's documentation, and the names that `lhotse prepare` and icefall's recipes write:

    aishell_cuts_train.jsonl.gz, cuts_train-clean-100.jsonl.gz, dev.jsonl.gz, cuts.jsonl.gz
    aishell_recordings_train.jsonl.gz and aishell_supervisions_train.jsonl.gz

The split is the last word of the name, up to a hyphen; in train_cuts.jsonl.gz it is the word before. A file
without one, such as cuts.jsonl.gz, is train, and is read if no other file of its kind names a split. A cut
becomes utterances in lhotse_cuts.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, Optional

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.corpora import json_lines, layout, lhotse_cuts
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_FILE = re.compile(r"(.+)\.jsonl?(?:\.gz)?")
_ACCEPTED = (
    "expected cuts_train.jsonl.gz, train.jsonl.gz or cuts.jsonl.gz, or recordings_train.jsonl.gz with "
    "supervisions_train.jsonl.gz (and dev, test; also .jsonl, .json)"
)


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of every file of cuts in the directory, or of recordings if there are no cuts."""
    names = [name for name in files.list_names(corpus_dir) if _FILE.fullmatch(name)]
    cuts, recordings = _choose(names, "cuts"), _choose(names, "recordings")
    if not cuts and not recordings:
        listing = ", ".join(names) or "missing"
        raise errors.UserError(f"{corpus_dir}: Lhotse manifests are {listing}, {_ACCEPTED}; rename them.")
    unread = [name for name in names if "cuts" in name and name not in cuts]
    if unread:
        logging.warning("%s: not read: %s, %s.", corpus_dir, ", ".join(unread), _ACCEPTED)
    for name, split in cuts.items():
        path = os.path.join(corpus_dir, name)
        for where, cut in json_lines.read_objects(path):
            yield from _convert(where, lhotse_cuts.list_cut, path, cut, split)
    for name, split in {} if cuts else recordings.items():
        yield from _list_pair(corpus_dir, name, split)


def _choose(names: list[str], kind: str) -> dict[str, str]:
    """Returns the files of a kind, each with its split: those that name a split, or else those without."""
    stems = {name: _FILE.fullmatch(name)[1] for name in names}
    splits = {name: _find_split(stem, kind) for name, stem in stems.items()}
    named = {name: split for name, split in splits.items() if split}
    return named or {name: "train" for name, stem in stems.items() if stem.endswith(kind)}


def _find_split(stem: str, kind: str) -> Optional[str]:
    """Returns the split that the name of a file of this kind has; None if none, or for another kind."""
    *before, last = stem.split("_")
    if kind in last:  # train_cuts
        last = before[-1] if before else ""
    elif kind not in "_".join(before) and (before or kind != "cuts"):
        return None
    return layout.split_of(last.partition("-")[0])


def _list_pair(corpus_dir: str, name: str, split: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances of a file of recordings and its file of supervisions."""
    path = os.path.join(corpus_dir, name)
    partner = os.path.join(corpus_dir, name.replace("recordings", "supervisions"))
    if not files.exists(partner):
        raise errors.UserError(f"{path}: {partner} is missing, {_ACCEPTED}; copy or rename the supervisions.")
    recordings = dict(itertools.starmap(_keep_sound, json_lines.read_objects(path)))
    for where, supervision in json_lines.read_objects(partner):
        recording = recordings.get(json_lines.get_text(where, supervision, "recording_id"))
        yield _convert(where, lhotse_cuts.make_utterance, partner, recording, supervision, split)


def _convert(where: str, function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(where, *arguments)
    except errors.UserError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise errors.UserError(
            f"{where}: {error!r}, expected a cut or supervision as Lhotse writes it; write the file again."
        ) from error


def _keep_sound(where: str, recording: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns the id of a recording and only the fields that are used: all recordings are kept in memory."""
    sound = {name: recording[name] for name in ("sources", "transforms") if name in recording}
    return json_lines.get_text(where, recording, "id"), sound
