"""Shows one record of a data directory.

    python -m tfrecord_builder.show --data_dir=DATA
    python -m tfrecord_builder.show --data_dir=DATA --utterance_id=A11_0 --output=A11_0.png

prints the fields of the record (default: the first one of train) and statistics of its features, and draws
its spectrogram with transcript and pronunciation.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from typing import Optional

import numpy as np

from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info
from tfrecord_builder.records import pictures, record_checks, search
from tfrecord_builder.runtime import fonts
from tfrecord_builder.settings import config_flags, program
from tfrecord_builder.storage import files
from tfrecord_builder.tokens import vocabulary


@dataclasses.dataclass(frozen=True)
class ShowConfig(config_flags.Checked):
    """What to show."""

    data_dir: str = config_flags.setting("", "data directory", required=True)
    utterance_id: Optional[str] = config_flags.setting(None, "id of the record; default: the first of train")
    output: str = config_flags.setting("", "PNG to write; default: <utterance_id>.png")

    def __post_init__(self):
        super().__post_init__()
        if self.output and not self.output.lower().endswith(".png"):
            raise errors.UserError(
                f"--output: file is {self.output}, expected a name that ends in .png; rename it."
            )


def show(config: ShowConfig) -> None:
    """Prints the record and writes the picture.

    Raises:
      UserError: the data directory, the record or a vocabulary is missing or damaged.
    """
    info = dataset_info.DatasetInfo.load(config.data_dir)
    tokens, characters = (
        vocabulary.Vocabulary.load(os.path.join(config.data_dir, name))
        for name in (dataset_info.TOKENS_FILE, dataset_info.CHARACTERS_FILE)
    )
    expected = record_checks.Expected(tokens, characters, info.frontend, info.fbank_dtype)
    found = search.find(config.data_dir, info, expected, config.utterance_id)
    print("\n".join(_describe(found, expected)))
    if found.record.fbank is not None:
        _draw(found, expected, config.output or _file_name(found.record.utterance_id))


def _describe(found: search.Found, expected: record_checks.Expected) -> Iterator[str]:
    record = found.record
    yield f"utterance_id   {record.utterance_id}"
    yield f"split          {found.split}, record {found.number} of {os.path.basename(found.shard)}"
    if found.utterance and found.utterance.audio:
        yield f"audio          {found.utterance.audio}{_describe_part(found.utterance)}"
    yield f"speaker        {record.speaker}"
    yield f"transcript     {record.transcript}"
    yield f"pronunciation  {record.pronunciation}"
    yield from _describe_ids("token_ids", record.token_ids, expected.tokens)
    yield from _describe_ids("character_ids", record.character_ids, expected.characters)
    if record.fbank is not None:
        yield f"duration_ms    {record.duration_ms}"
        yield f"num_frames     {len(record.fbank)}"
        yield f"fbank          {expected.fbank_dtype} {list(record.fbank.shape)}"
        fbank = record.fbank.astype(np.float32)
        yield f"{'':13s}  min {fbank.min():.2f}, mean {fbank.mean():.2f}, max {fbank.max():.2f}"


def _describe_part(utterance) -> str:
    part = "" if utterance.channel is None else f", channel {utterance.channel}"
    if utterance.seconds is None:
        return f", from {utterance.start_seconds:g} s{part}" if utterance.start_seconds else part
    end = utterance.start_seconds + utterance.seconds
    return f", {utterance.start_seconds:g} to {end:g} s{part}"


def _describe_ids(name: str, ids, known: vocabulary.Vocabulary) -> list[str]:
    written = " ".join(f"{each}" for each in ids)
    unknown = sum(each == known.unknown_id for each in ids)
    return [f"{name:13s}  {written}".rstrip(), f"{'':13s}  ({len(ids)}, {unknown} unknown)"]


def _draw(found: search.Found, expected: record_checks.Expected, output: str) -> None:
    with files.writing(output) as path:
        omitted = pictures.draw(found.record, expected.frontend, path)
    print(f"picture        {output}")
    if omitted:
        print(f"picture: no installed font has {omitted[0]}, it was omitted; {fonts.INSTALL_FONT}")


def _file_name(utterance_id: str) -> str:
    safe = re.sub("[^A-Za-z0-9._-]+", "_", utterance_id).lstrip(".")[:100]
    return f"{safe or 'record'}.png"


if __name__ == "__main__":
    program.run(show, ShowConfig)
