"""What the columns of a table mean, whatever they are called."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from tfrecord_builder import errors
from tfrecord_builder.corpora import segments

# As DeepSpeech, SpeechBrain, Coqui, Common Voice, NeMo, WeNet and Hugging Face's datasets call them, in lower
# case and with underscores.
NAMES = {
    "id": ("id", "utterance_id", "utt_id", "uttid", "utt", "key"),
    "audio": (
        *("audio", "audio_path", "audio_file", "audio_filepath", "path", "file", "file_name", "filename"),
        *("file_path", "filepath", "wav", "wav_path", "wav_file", "wav_filename"),
    ),
    "text": ("text", "transcript", "transcription", "sentence", "txt", "wrd", "words"),
    "pinyin": ("pinyin",),
    "speaker": ("speaker", "speaker_id", "speaker_name", "spk", "spk_id", "client_id"),
    "split": ("split", "subset"),
    **segments.NAMES,
    "stop": ("stop",),
    "options": ("wav_opts",),  # SpeechBrain's earlier tables: start:10000 stop:26000
}
_SPEECHBRAIN = {"ID", "duration", "wav"}  # in every CSV of SpeechBrain; audio_path and so on are beside


@functools.lru_cache(maxsize=1 << 10)
def find(header: tuple[str, ...]) -> dict[str, list[int]]:
    """Returns the places of those of NAMES that a header has, in any case."""
    words = [re.sub(r"[\s-]+", "_", word.strip().lower()) for word in header]
    found = {name: [i for i, word in enumerate(words) if word in NAMES[name]] for name in NAMES}
    if _SPEECHBRAIN <= {word.strip() for word in header}:
        found["audio"] = [words.index("wav")]
    return {name: places for name, places in found.items() if places}


def is_enough(places: Mapping[str, Sequence[int]]) -> bool:
    """Whether there is audio with text or pinyin."""
    return "audio" in places and ("text" in places or "pinyin" in places)


def check(where: str, header: Sequence[str]) -> None:
    """Raises UserError, which names all that is accepted, if a header has too little."""
    if not is_enough(find(tuple(header))):
        raise errors.UserError(
            f"{where}: its header line has {', '.join(header) or 'nothing'}, expected a column for audio "
            f"({', '.join(NAMES['audio'])}) and one for the transcript ({', '.join(NAMES['text'])}, pinyin); "
            "name the columns in the first line."
        )


def read_row(where: str, places: Mapping[str, Sequence[int]], values: Sequence[str]) -> dict[str, str]:
    """Returns the values of a row by NAMES; where two columns mean one thing, the one that is filled in.

    Raises:
      UserError: two columns for one thing differ.
    """
    row = {}
    for name, indices in places.items():
        filled = [values[i] for i in indices if values[i].strip()]
        if len({_comparable(value) for value in filled}) > 1:
            raise errors.UserError(
                f"{where}: several columns for {name} have {' and '.join(map(repr, filled[:2]))}, "
                f"expected one ({', '.join(NAMES[name])}) or equal values; rename the others."
            )
        row[name] = filled[0] if filled else ""
    return row


def _comparable(value: str) -> object:
    try:
        return float(value)
    except ValueError:
        return value.strip()
