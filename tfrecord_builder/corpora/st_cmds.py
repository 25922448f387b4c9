"""ST-CMDS as it unpacks: ST-CMDS-20170001_1-OS/20170001P00001A0001.{wav,txt,metadata}, all in one directory.

Layout: openslr.org/38 and Kaldi's egs/multi_cn. A .txt file is one line, the transcript, often without a line
end. Names of two of the 102,600 recordings:

    20170001P00001A0001.wav   speaker P00001A
    20170001P00001I0001.wav   speaker P00001I

The letter belongs to the speaker: this gives the 855 speakers with 120 sentences each of the corpus's
description. The corpus has no splits: all of it is train.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator

from tfrecord_builder import errors
from tfrecord_builder.corpora import layout, text_files
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_NAME = re.compile(r"\d{8}(P\d{5}[A-Z])\d{4}")


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, and for every transcript without one."""
    is_empty = True
    for name, found in itertools.groupby(files.list_names(corpus_dir), layout.recording_id):
        suffixes = {os.path.splitext(file)[1] for file in found}
        if _NAME.fullmatch(name) and suffixes & {".wav", ".txt"}:
            is_empty = False
            yield _make_utterance(os.path.join(corpus_dir, name), ".txt" in suffixes)
    if is_empty:
        raise errors.UserError(
            f"{corpus_dir}: 20170001PxxxxxAxxxx.wav and the like are missing, expected ST-CMDS; "
            "pass the directory ST-CMDS-20170001_1-OS itself."
        )


def _make_utterance(stem: str, has_transcript: bool) -> manifest.Utterance:
    utterance_id = os.path.basename(stem)
    lines = text_files.read_lines(f"{stem}.txt", "unpack ST-CMDS again") if has_transcript else []
    speaker = _NAME.fullmatch(utterance_id)[1]
    return manifest.Utterance(utterance_id, f"{stem}.wav", speaker, " ".join(lines).strip(), "", "train")
