"""AISHELL-1 as it unpacks: wav/{train,dev,test}/Sxxxx/*.wav and transcript/aishell_transcript_v0.8.txt.

Two lines of the transcript:

    BAC009S0002W0122 而 对 楼市 成交 抑制 作用 最 大 的 限 购
    BAC009S0002W0123 也 成为 地方 政府 的 眼中 钉

Layout: openslr.org/33. wav/ holds an archive a speaker, which are unpacked where they lie. The corpus has a
few hundred recordings without a transcript: they get an empty one. A transcript without a recording is of a
speaker who was not unpacked: it is listed where its recording should be. So the builder rejects and counts
both.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tfrecord_builder import errors, manifest
from tfrecord_builder.corpora import layout

_TRANSCRIPT = os.path.join("transcript", "aishell_transcript_v0.8.txt")
_SPEAKER = slice(len("BAC009"), len("BAC009S0002"))  # of an utterance id
_FIRST_DEV_SPEAKER, _FIRST_TEST_SPEAKER = "S0724", "S0764"


def list_utterances(corpus_dir: str) -> Iterator[manifest.Utterance]:
    """Yields an utterance for every recording, then for every transcript without one."""
    transcripts = _read_transcripts(os.path.join(corpus_dir, _TRANSCRIPT))
    folders = {split: os.path.join(corpus_dir, "wav", split) for split in manifest.SPLITS}
    layout.check_unpacked(os.path.join(corpus_dir, "wav"), folders.values())
    is_empty = True
    for split, folder in folders.items():
        for path in layout.find_recordings(folder, ".wav"):
            is_empty = False
            yield _make_utterance(split, path, transcripts.pop(layout.recording_id(path), ""))
    if is_empty:
        raise errors.UserError(
            f"{corpus_dir}: there is no recording wav/train/Sxxxx/*.wav, expected AISHELL-1; "
            "unpack the archive of every speaker in wav/ first."
        )
    for utterance_id, transcript in sorted(transcripts.items()):
        yield _make_missing(folders, utterance_id, transcript)


def _read_transcripts(path: str) -> dict[str, str]:
    parts = (line.split(maxsplit=1) for line in manifest.read_lines(path, "pass the directory data_aishell"))
    return {part[0]: part[1].strip() for part in parts if len(part) == 2}


def _make_utterance(split: str, path: str, transcript: str) -> manifest.Utterance:
    speaker = os.path.basename(os.path.dirname(path))
    return manifest.Utterance(layout.recording_id(path), path, speaker, transcript, "", split)


def _make_missing(folders: dict[str, str], utterance_id: str, transcript: str) -> manifest.Utterance:
    """Puts the recording where it should be: the splits part the speakers by number."""
    speaker = utterance_id[_SPEAKER]
    split = "train" if speaker < _FIRST_DEV_SPEAKER else "dev" if speaker < _FIRST_TEST_SPEAKER else "test"
    return _make_utterance(split, os.path.join(folders[split], speaker, f"{utterance_id}.wav"), transcript)
