"""Shows one record from a data directory.

    python -m tfrecord_builder.show --data_dir=DATA
    python -m tfrecord_builder.show --data_dir=DATA --utterance_id=A11_0 --output=A11_0.png

Prints the record's fields and statistics of its features, and draws its spectrogram with the transcript and
the pronunciation. By default, shows the first record of train.
"""

from __future__ import annotations

from tfrecord_builder.program import interrupts

interrupts.exit_at_once(__name__)

import dataclasses
import hashlib
import os
import re
from collections.abc import Iterator
from typing import Optional

import numpy as np

from tfrecord_builder import errors
from tfrecord_builder.building import sharding
from tfrecord_builder.building.verification import pictures, stored_records
from tfrecord_builder.data import dataset_info, manifest, marks, recordings, schema, vocabulary
from tfrecord_builder.program import config_flags, fonts, program
from tfrecord_builder.storage import files

_MAX_NAME_BYTES = 200  # file names are limited to 255 bytes; hashes and temporary suffixes use the rest


@dataclasses.dataclass(frozen=True)
class ShowConfig(config_flags.Checked):
    """The record to show, and the file for its picture."""

    data_dir: str = config_flags.setting("", "data directory that contains the record", required=True)
    utterance_id: Optional[str] = config_flags.setting(
        None, "id of the utterance to show; default: the first record of train"
    )
    output: str = config_flags.setting("", "PNG file to write; default: <utterance_id>.png")

    def __post_init__(self):
        super().__post_init__()
        if self.output and not self.output.lower().endswith(".png"):
            raise errors.UserError(f"--output is {self.output}, expected a file name that ends in .png.")


@dataclasses.dataclass(frozen=True)
class LocatedRecord:
    """A record and its location: `shard` is a path, and `number` the 0-based position in the shard."""

    record: schema.Record
    split: str
    shard: str
    number: int
    utterance: Optional[manifest.Utterance]  # what the record was made from; None if there is no .jsonl file


def show(config: ShowConfig) -> None:
    """Prints a record and draws its picture.

    Raises errors.UserError if the data directory, the record or a vocabulary is missing or damaged.
    """
    info = dataset_info.DatasetInfo.load(config.data_dir)
    tokens, characters = (
        vocabulary.Vocabulary.load(os.path.join(config.data_dir, name))
        for name in (dataset_info.TOKENS_FILE, dataset_info.CHARACTERS_FILE)
    )
    expected = stored_records.RecordSpec(tokens, characters, info.frontend, info.fbank_dtype)
    entry = find(config.data_dir, info, expected, config.utterance_id)
    print("\n".join(_describe(entry, expected)))
    if entry.record.fbank is not None:
        _draw(entry.record, expected, config.output or _file_name(entry.record.utterance_id))


def find(
    data_dir: str,
    info: dataset_info.DatasetInfo,
    expected: stored_records.RecordSpec,
    utterance_id: Optional[str],
) -> LocatedRecord:
    """Finds an utterance's record; if the id is None, finds the first record, searching train first.

    Raises errors.UserError if there is no such record, its shard is missing, or the record is damaged.
    """
    damaged = None
    for split in sorted(info.splits, key=lambda name: (name != "train", name)):
        for shard in info.splits[split].shards:
            path = os.path.join(data_dir, shard.file)
            utterances = _read_utterances(path)
            if utterance_id is not None and utterances is not None and utterance_id not in utterances:
                continue
            for raw in _read(path):
                if utterance_id in (None, stored_records.utterance_id(raw.data or b"")):
                    record = _parse(path, raw, expected)
                    return LocatedRecord(
                        record, split, path, raw.number, (utterances or {}).get(record.utterance_id)
                    )
                if raw.problem:
                    damaged = damaged or (path, raw)  # may be the requested record, with a damaged id
    reason = _rejection_reason(data_dir, utterance_id)
    if damaged and not reason:
        _parse(*damaged, expected)
    raise errors.UserError(_not_found(data_dir, utterance_id, reason))


def _read_utterances(path: str) -> Optional[dict[str, manifest.Utterance]]:
    """Reads a shard's .jsonl file, which is much smaller than the shard; returns None if it is missing."""
    if not files.exists(recordings.path_of(path)):
        return None
    return {item.utterance.utterance_id: item.utterance for item in sharding.read_items(path)}


def _read(path: str) -> Iterator[stored_records.RawRecord]:
    if not files.exists(path):
        raise errors.UserError(f"{path}: shard is missing; copy or build the data again.")
    with files.open_binary(path) as file:
        yield from stored_records.RecordFile(file).records()


def _parse(path: str, raw: stored_records.RawRecord, expected: stored_records.RecordSpec) -> schema.Record:
    problem = raw.problem
    try:
        if not problem:
            return stored_records.read_record(raw.data, expected)
    except stored_records.DamagedRecordError as error:
        problem = str(error)
    raise errors.UserError(
        f"{path}: record {raw.number} at byte {raw.offset} is damaged: {problem}. "
        "Run python -m tfrecord_builder.verify to find all damaged records."
    )


def _not_found(data_dir: str, utterance_id: Optional[str], reason: str) -> str:
    if utterance_id is None:
        return f"{data_dir} contains no records; build the data again."
    if reason:
        return (
            f"--utterance_id: {utterance_id} has no record, because the utterance was rejected ({reason}); "
            f"see {os.path.join(data_dir, dataset_info.REJECTED_FILE)}."
        )
    return (
        f"--utterance_id: {data_dir} has no record with the id {utterance_id}; pass another id, or leave "
        "--utterance_id out to see the first record."
    )


def _rejection_reason(data_dir: str, utterance_id: Optional[str]) -> str:
    path = os.path.join(data_dir, dataset_info.REJECTED_FILE)
    if not files.exists(path):
        return ""
    with files.open_binary(path) as file:
        rows = (line.decode("utf-8", "surrogateescape").rstrip("\r\n").split("\t") for line in file)
        return next((row[2] for row in rows if row[0] == utterance_id and len(row) > 2), "")


def _describe(entry: LocatedRecord, expected: stored_records.RecordSpec) -> Iterator[str]:
    record = entry.record
    yield f"utterance_id   {record.utterance_id}"
    yield f"split          {entry.split}, record {entry.number} of {os.path.basename(entry.shard)}"
    if entry.utterance and entry.utterance.audio:
        yield f"audio          {entry.utterance.audio}{_describe_part(entry.utterance)}"
    yield f"speaker        {record.speaker}"
    yield f"transcript     {record.transcript}"
    yield f"pronunciation  {record.pronunciation}"
    yield from _describe_ids("token_ids", record.token_ids, expected.tokens)
    yield from _describe_ids("character_ids", record.character_ids, expected.characters)
    if record.mark_ids:
        yield f"marks          {marks.join(record.transcript, record.mark_ids)}"
    if record.written:
        yield f"written        {record.written}"
    if record.fbank is not None:
        yield f"duration_ms    {record.duration_ms}"
        yield f"num_frames     {len(record.fbank)}"
        yield f"fbank          {expected.fbank_dtype} {list(record.fbank.shape)}"
        fbank = record.fbank.astype(np.float32)
        yield f"{'':13s}  min {fbank.min():.2f}, mean {fbank.mean():.2f}, max {fbank.max():.2f}"


def _describe_part(utterance: manifest.Utterance) -> str:
    channel = "" if utterance.channel is None else f", channel {utterance.channel}"
    if utterance.seconds is None:
        return f", from {utterance.start_seconds:g} s{channel}" if utterance.start_seconds else channel
    end = utterance.start_seconds + utterance.seconds
    return f", {utterance.start_seconds:g} to {end:g} s{channel}"


def _describe_ids(name: str, ids: list[int], words: vocabulary.Vocabulary) -> list[str]:
    num_unknown = ids.count(words.unknown_id)
    return [
        f"{name:13s}  {' '.join(map(str, ids))}".rstrip(),
        f"{'':13s}  ({len(ids)}, {num_unknown} unknown)",
    ]


def _draw(record: schema.Record, expected: stored_records.RecordSpec, output: str) -> None:
    with files.writing(output) as path:
        omitted = pictures.draw(record, expected.frontend, path)
    print(f"picture        {output}")
    if omitted:
        print(f"picture: {omitted[0]} was omitted, because no font can show it; {fonts.INSTALL_FONT}")


def _file_name(utterance_id: str) -> str:
    """Returns a file name for a picture; if the id must be shortened or changed, a hash is added."""
    safe = re.sub(r"[^\w.-]+", "_", utterance_id).lstrip(".") or "record"
    safe = safe.encode()[:_MAX_NAME_BYTES].decode(errors="ignore")
    if safe != utterance_id:
        safe += "-" + hashlib.sha256(utterance_id.encode()).hexdigest()[:8]
    return f"{safe}.png"


if __name__ == "__main__":
    program.run(show, ShowConfig)
