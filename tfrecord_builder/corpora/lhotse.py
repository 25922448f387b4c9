"""Reads Lhotse manifests (.jsonl or .json, optionally .gz): cuts, or recordings and supervisions.

Lhotse's documentation describes the layout. `lhotse prepare` and icefall's recipes write files such as:

    aishell_cuts_train.jsonl.gz, cuts_train-clean-100.jsonl.gz, dev.jsonl.gz, cuts.jsonl.gz
    aishell_recordings_train.jsonl.gz and aishell_supervisions_train.jsonl.gz

The split is the last word in the file name, or the word before cuts or recordings (train_cuts.jsonl.gz); a
hyphen and what follows it are ignored. A file whose name contains no split, such as cuts.jsonl.gz, counts as
train, and is read only if no other file of the same kind has a split in its name. Each supervision becomes
an utterance; a cut without supervisions becomes an utterance without a transcript. The following fields of a
cut are read:

    {"id": "a-0", "type": "MonoCut", "start": 0.5, "duration": 2.5, "channel": 0, "supervisions": [
     {"id": "a", "start": 0.0, "duration": 2.5, "channel": 0, "text": "你好", "speaker": "s1"}],
     "recording": {"sources": [{"type": "file", "channels": [0], "source": "/data/a.wav"}],
     "transforms": [{"name": "Speed", "kwargs": {"factor": 0.9}}]}}

A supervision's start is relative to the start of its cut; both are times after the transforms. Speed and
Volume are applied as in Lhotse; Resample is ignored. A padded cut is read without its padding. Cuts that use
other features of Lhotse are rejected: mixtures, other transforms, sources that are neither a file nor a
command that only decodes a file, and selections of several but not all channels in a file.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from typing import Any, Optional

from absl import logging

from tfrecord_builder import errors
from tfrecord_builder.corpora import json_lines, kaldi_commands, layout
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_FILE = re.compile(r"(.+)\.jsonl?(?:\.gz)?")
_ACCEPTED = (
    "expected cuts_train.jsonl.gz, train.jsonl.gz or cuts.jsonl.gz, or recordings_train.jsonl.gz with "
    "supervisions_train.jsonl.gz (and dev, test; also .jsonl, .json)"
)
_TOLERANCE_SECONDS = 0.1  # rounding may extend a supervision this far beyond its cut
# The limits of --speed_perturb_factors and --volume_db.
_RANGES = {"Speed": (0.5, 2.0), "Volume": (0.001, 1000.0)}
_MIXED = "mixed"  # replaces the recording in a cut that mixes several sounds

Fields = dict[str, Any]


class _Unsupported(Exception):
    """Raised if a cut uses an unsupported feature; the message is the reason for rejecting the cut."""


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields the utterances from a directory's cut manifests or, if it has none, its recording manifests."""
    names = [name for name in files.list_names(corpus_dir) if _FILE.fullmatch(name)]
    cuts, recordings = _choose(names, "cuts"), _choose(names, "recordings")
    if not cuts and not recordings:
        manifests = ", ".join(names) or "no Lhotse manifests"
        raise errors.UserError(
            f"{corpus_dir}: found {manifests}, {_ACCEPTED}; rename the manifests, or pass the directory that "
            "contains them."
        )
    unread = [name for name in names if "cuts" in name and name not in cuts]
    if unread:
        logging.warning("%s: ignored unknown files: %s; %s.", corpus_dir, ", ".join(unread), _ACCEPTED)
    for name, split in cuts.items():
        path = os.path.join(corpus_dir, name)
        for where, cut in json_lines.read_objects(path):
            yield from _list_cut(where, path, cut, split)
    for name, split in {} if cuts else recordings.items():
        yield from _list_pair(corpus_dir, name, split)


def _choose(names: list[str], kind: str) -> dict[str, str]:
    """Maps files of one kind to splits; uses files without a split only if no file has one."""
    stems = {name: _FILE.fullmatch(name)[1] for name in names}
    splits = {name: _find_split(stem, kind) for name, stem in stems.items()}
    named = {name: split for name, split in splits.items() if split}
    return named or {name: "train" for name, stem in stems.items() if stem.endswith(kind)}


def _find_split(stem: str, kind: str) -> Optional[str]:
    """Returns the split in a file name, or None if the name has no split or the file is of another kind."""
    *before, last = stem.split("_")
    if kind in last:  # a name such as train_cuts
        last = before[-1] if before else ""
    elif kind not in "_".join(before) and (before or kind != "cuts"):
        return None
    return layout.split_of(last.partition("-")[0])


def _list_pair(corpus_dir: str, name: str, split: str) -> Iterator[manifest.Utterance]:
    path = os.path.join(corpus_dir, name)
    partner = os.path.join(corpus_dir, name.replace("recordings", "supervisions"))
    if not files.exists(partner):
        raise errors.UserError(
            f"{path}: the supervisions file {partner} is missing; {_ACCEPTED}; copy or rename the file."
        )
    recordings = {}
    for where, fields in json_lines.read_objects(path):
        # Other fields are dropped, because all recordings are in memory at the same time.
        sound = {key: fields[key] for key in ("sources", "transforms") if key in fields}
        recordings[json_lines.get_text(where, fields, "id")] = sound
    for where, supervision in json_lines.read_objects(partner):
        recording = recordings.get(json_lines.get_text(where, supervision, "recording_id"))
        cut = {"id": supervision.get("id"), "recording": recording, "supervisions": [supervision]}
        cut["channel"] = supervision.get("channel", 0)
        yield from _list_cut(where, partner, cut, split)


def _list_cut(where: str, path: str, cut: Fields, split: str) -> list[manifest.Utterance]:
    """Returns the utterances of a cut; if there are several, their ids are <cut>-<supervision>."""
    name = json_lines.get_text(where, cut, "id")
    try:
        if cut.get("type") == "MixedCut":
            kinds = [track["cut"].get("type", track.get("type")) for track in cut["tracks"]]
            tracks = [track["cut"] for track, kind in zip(cut["tracks"], kinds) if kind != "PaddingCut"]
            is_padded = len(tracks) == 1 and not cut.get("transforms")
            cut = tracks[0] if is_padded else {"recording": _MIXED}
        supervisions = cut.get("supervisions") or [{}]
        names = [f"{name}-{supervision.get('id', i)}" for i, supervision in enumerate(supervisions, 1)]
        named = zip(names if len(names) > 1 else [name], supervisions)
        return [_make_utterance(where, path, *pair, cut, split) for pair in named]
    except errors.UserError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise errors.UserError(
            f"{where}: not a valid Lhotse cut or supervision ({error!r}); write the file again."
        ) from error


def _make_utterance(
    where: str, path: str, name: str, supervision: Fields, cut: Fields, split: str
) -> manifest.Utterance:
    speaker, text = (json_lines.get_text(where, supervision, field, "") for field in ("speaker", "text"))
    try:
        sound = _find_sound(os.path.dirname(path), cut, supervision)
    except _Unsupported as reason:
        return manifest.Utterance(name, path, speaker, text, "", split, problem=str(reason))
    return manifest.Utterance(utterance_id=name, speaker=speaker, text=text, pinyin="", split=split, **sound)


def _find_sound(directory: str, cut: Fields, supervision: Fields) -> dict[str, Any]:
    """Returns the fields of an Utterance that describe its audio."""
    recording = cut.get("recording")
    if recording == _MIXED:
        raise _Unsupported("Lhotse MixedCut of several sounds (supported: MonoCut, MultiCut, padded cuts)")
    if recording is None:
        raise _Unsupported("Lhotse cut or supervision has no recording with audio sources")
    factors = _read_transforms(recording.get("transforms") or [])
    start, seconds = _find_part(cut, supervision)
    source, channel = _find_source(recording["sources"], _find_channels(cut, supervision))
    return {
        "audio": layout.resolve(directory, source),
        "start_seconds": start * factors["Speed"],
        "seconds": seconds and seconds * factors["Speed"],
        "channel": channel,
        "speed": factors["Speed"],
        "volume_db": 20 * math.log10(factors["Volume"]),
    }


def _find_part(cut: Fields, supervision: Fields) -> tuple[float, Optional[float]]:
    """Returns a supervision's start in the recording and its duration (None: up to the end), in seconds."""
    cut_start, start = float(cut.get("start") or 0), float(supervision.get("start") or 0)
    limit = float(math.inf if cut.get("duration") is None else cut["duration"])
    seconds = supervision.get("duration")
    end = limit if seconds is None else start + float(seconds)
    is_within = start >= -_TOLERANCE_SECONDS and end <= limit + _TOLERANCE_SECONDS
    if not is_within or not 0 <= cut_start + max(start, 0) < math.inf:
        raise _Unsupported("Lhotse supervision is not within its cut, or has invalid times")
    start, end = max(start, 0.0), min(end, limit)
    return cut_start + start, None if math.isinf(end) else round(max(end - start, 0.0), 6)


def _find_channels(cut: Fields, supervision: Fields) -> list[int]:
    """Returns the supervision's channels, or the cut's channels if the supervision specifies no channel."""
    channels = _as_list(cut.get("channel", 0))
    chosen = channels if supervision.get("channel") is None else _as_list(supervision["channel"])
    if not all(channel in channels for channel in chosen):
        raise _Unsupported("Lhotse supervision names a channel that its cut does not have")
    return chosen


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _find_source(sources: list[Fields], channels: list[int]) -> tuple[str, Optional[int]]:
    """Returns the file that contains the channels, and the index of the channel to read (None for all)."""
    for source in sources:
        available = source["channels"]
        if not channels or not set(channels) <= set(available):
            continue
        path, channel = _find_file(source)
        if len(available) == 1 and source["type"] == "command":  # the command may select or mix channels
            return path, channel
        if len(channels) == 1:
            return path, available.index(channels[0])
        if len(channels) == len(available):
            return path, None
    raise _Unsupported("Lhotse cut selects several but not all channels in a file (supported: one or all)")


def _find_file(source: Fields) -> tuple[str, Optional[int]]:
    """Returns the file that a source reads, and the channel that its command selects (None for all)."""
    kind = source["type"]
    if kind == "file":
        return source["source"], None
    decoded = kaldi_commands.find_file(source["source"]) if kind == "command" else None
    if decoded is None:
        supported = "supported: a file or a command that only decodes one"
        raise _Unsupported(f"Lhotse audio source of type {kind!r} ({supported})")
    return decoded


def _read_transforms(transforms: list[Fields]) -> dict[str, float]:
    """Returns the total speed and volume factors of a recording's transforms."""
    factors = {"Speed": 1.0, "Volume": 1.0}
    for transform in transforms:
        name = transform.get("name")
        if name == "Resample":
            continue
        if name not in factors:
            raise _Unsupported(f"Lhotse transform {name!r} (supported: Speed, Volume, Resample)")
        lowest, highest = _RANGES[name]
        factor = transform["kwargs"]["factor"]
        if factor is None or not lowest <= factor <= highest:
            raise _Unsupported(f"Lhotse transform {name} has a factor outside {lowest:g} to {highest:g}")
        factors[name] *= factor
    return factors
