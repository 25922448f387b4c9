"""AISHELL-1 as it unpacks: wav/{train,dev,test}/Sxxxx/*.wav and transcript/aishell_transcript_v0.8.txt.

Two lines of the transcript:

    BAC009S0002W0122 而 对 楼市 成交 抑制 作用 最 大 的 限 购
    BAC009S0002W0123 也 成为 地方 政府 的 眼中 钉

Layout: openslr.org/33. wav/ holds one archive per speaker, to be unpacked in place. A few hundred recordings
have no transcript. A transcript without a recording is of a speaker who was not unpacked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder import errors
from tfrecord_builder.corpora import layout
from tfrecord_builder.data import manifest
from tfrecord_builder.storage import files

_TRANSCRIPT = os.path.join("transcript", "aishell_transcript_v0.8.txt")
_SPEAKER = slice(len("BAC009"), len("BAC009S0002"))  # of an utterance id
_FIRST_DEV_SPEAKER, _FIRST_TEST_SPEAKER = "S0724", "S0764"


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, then for every transcript without one."""
    path = os.path.join(corpus_dir, _TRANSCRIPT)
    transcripts = layout.read_transcripts(path, "pass the directory data_aishell")
    wav_dir = os.path.join(corpus_dir, "wav")
    folders = {split: os.path.join(wav_dir, split) for split in manifest.SPLITS}
    layout.check_unpacked(wav_dir, folders.values())
    if not any(files.is_directory(folder) for folder in folders.values()):
        raise errors.UserError(
            f"{corpus_dir}: wav/train, wav/dev and wav/test are missing, expected AISHELL-1; unpack the "
            "archive of every speaker in wav/ first."
        )

    def find_place(utterance_id: str) -> tuple[str, str]:
        """The splits divide the speakers by number."""
        speaker = utterance_id[_SPEAKER]
        split = (
            "train" if speaker < _FIRST_DEV_SPEAKER else "dev" if speaker < _FIRST_TEST_SPEAKER else "test"
        )
        return os.path.join(folders[split], speaker, f"{utterance_id}.wav"), split

    yield from layout.pair(folders, transcripts, find_place)
