"""Columns of a table, or fields of a JSON object, by the names that several projects give them."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from tfrecord_builder import errors
from tfrecord_builder.corpora import segments

# As DeepSpeech, SpeechBrain, Coqui, Common Voice, NeMo, WeNet and Hugging Face's datasets name them, in lower
# case with underscores. A column of the first name takes precedence over the others.
NAMES = {
    "id": ("id", "utterance_id", "utt_id", "uttid", "utt", "key"),
    "audio": (
        *("audio", "audio_path", "audio_file", "audio_filepath", "path", "file", "file_name", "filename"),
        *("file_path", "filepath", "wav", "wav_path", "wav_file", "wav_filename"),
    ),
    "text": ("text", "transcript", "transcription", "sentence", "txt", "wrd", "words", "hanzi"),
    "pinyin": ("pinyin",),
    "speaker": ("speaker", "speaker_id", "speaker_name", "spk", "spk_id", "client_id"),
    "split": ("split", "subset"),
    **segments.NAMES,
}
# Required columns: one of each tuple.
RECORDINGS = (("audio",), ("text", "pinyin"))
SENTENCES = (("text",), ("pinyin",))

_SPEECHBRAIN = {"ID", "duration", "wav"}  # in every CSV of SpeechBrain; some have audio_path too


@functools.lru_cache(maxsize=1 << 10)
def find(header: tuple[str, ...]) -> dict[str, list[int]]:
    """Returns the column indices of each of NAMES that a header has, in any case."""
    words = [re.sub(r"[\s-]+", "_", word.strip().lower()) for word in header]
    found = {}
    for name, names in NAMES.items():
        accepted = names[:1] if names[0] in words else names
        found[name] = [i for i, word in enumerate(words) if word in accepted]
    if _SPEECHBRAIN <= {word.strip() for word in header}:
        found["audio"] = [words.index("wav")]
    return {name: places for name, places in found.items() if places}


def find_missing(header: Sequence[str], needed: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Returns those of the needed columns that a header lacks."""
    return [names for names in needed if not set(names) & set(find(tuple(header)))]


def check(where: str, header: Sequence[str], needed: Sequence[tuple[str, ...]]) -> None:
    """Raises errors.UserError, which lists the accepted names, if a header lacks a needed column."""
    missing = find_missing(header, needed)
    if missing:
        choices = [" or ".join(f"{name} ({', '.join(NAMES[name])})" for name in names) for names in missing]
        raise errors.UserError(
            f"{where}: columns are {', '.join(header) or 'missing'}, expected also {' and '.join(choices)}; "
            "name the columns in the first line."
        )


def read_row(where: str, header: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    """Returns the values of a row by NAMES; of several columns for one name, the one that is not empty.

    Raises:
        errors.UserError: two columns for one name differ.
    """
    row = {}
    for name, indices in find(tuple(header)).items():
        if len(indices) == 1:
            value = values[indices[0]]
            row[name] = value if value.strip() else ""
            continue
        filled = [values[i] for i in indices if values[i].strip()]
        if len(filled) > 1 and len(set(map(_to_comparable, filled))) > 1:
            raise errors.UserError(
                f"{where}: several columns for {name} have {' and '.join(map(repr, filled[:2]))}, "
                f"expected one ({', '.join(NAMES[name])}) or equal values; rename the others."
            )
        row[name] = filled[0] if filled else ""
    return row


def _to_comparable(value: str) -> object:
    try:
        return float(value)
    except ValueError:
        return value.strip()
