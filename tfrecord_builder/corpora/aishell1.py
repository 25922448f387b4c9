"""AISHELL-1 as it unpacks: wav/{train,dev,test}/Sxxxx/*.wav and transcript/aishell_transcript_v0.8.txt.

Two lines of the transcript:

    BAC009S0002W0122 而 对 楼市 成交 抑制 作用 最 大 的 限 购
    BAC009S0002W0123 也 成为 地方 政府 的 眼中 钉

The archive has a few hundred recordings without a transcript: they get an empty one, so the builder rejects
and counts them.
"""

from __future__ import annotations

import glob
import os

from tfrecord_builder import errors, manifest

_TRANSCRIPT = os.path.join("transcript", "aishell_transcript_v0.8.txt")


def list_utterances(corpus_dir: str) -> list[manifest.Utterance]:
    """Lists an utterance for every recording."""
    transcripts = _read_transcripts(os.path.join(corpus_dir, _TRANSCRIPT))
    recordings = [(split, path) for split in manifest.SPLITS for path in _list_recordings(corpus_dir, split)]
    if not recordings:
        raise errors.UserError(
            f"{corpus_dir}: there is no recording wav/train/Sxxxx/*.wav, expected AISHELL-1; "
            "unpack the archive of every speaker in wav/ first."
        )
    return [
        _make_utterance(split, path, transcripts.get(_utterance_id(path), "")) for split, path in recordings
    ]


def _read_transcripts(path: str) -> dict[str, str]:
    if not os.path.exists(path):
        raise errors.UserError(
            f"{path}: there is no such file, expected the transcripts; pass the directory data_aishell."
        )
    with open(path, encoding="utf-8") as file:
        parts = [line.split(maxsplit=1) for line in file]
    return {part[0]: part[1].strip() for part in parts if len(part) == 2}


def _list_recordings(corpus_dir: str, split: str) -> list[str]:
    return sorted(glob.glob(os.path.join(glob.escape(corpus_dir), "wav", split, "*", "*.wav")))


def _utterance_id(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


def _make_utterance(split: str, path: str, transcript: str) -> manifest.Utterance:
    speaker = os.path.basename(os.path.dirname(path))
    return manifest.Utterance(_utterance_id(path), path, speaker, transcript, "", split)
