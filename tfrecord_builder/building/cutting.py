"""Cuts long recordings into their utterances, so that each recording is downloaded and decoded only once.

The utterances of a recording are in many shards, so before the shards are written, a worker writes the
waveforms (float32) of all its utterances to a .cut file in a directory that all workers share. A recording is
cut if it has several utterances and is in an object store or in a slow format (containers.SLOW).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from typing import Optional

import numpy as np

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, containers, segment_reader
from tfrecord_builder.building import catalog, chunks, resumable, sharding
from tfrecord_builder.data import manifest
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files


class RejectedRecording(Exception):
    """Raised with the reason why a recording cannot be used; the build counts the rejection and continues."""


@dataclasses.dataclass(frozen=True)
class LongRecording:
    """A recording to cut into segments, which must all differ; num_items is the number of segments."""

    file: str
    audio: str
    segments: tuple[manifest.Segment, ...]
    num_items: int


@dataclasses.dataclass
class CutReceipt(resumable.ShardReceipt):
    """Receipt of a .cut file; `places` lists (segment, byte offset, number of samples, rejection reason)."""

    places: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class RecordingCutter(resumable.UnitWriter):
    """Cuts recordings, one per unit of work, and finds the waveforms of their utterances."""

    sample_rate: int
    max_seconds: float
    written_type = CutReceipt

    def plan(self, corpus: catalog.Catalog) -> list[LongRecording]:
        """Returns the recordings to cut."""
        slow = {audio: segments for audio, segments in corpus.segments() if _is_slow(audio)}
        names = map(self._name, slow, chunks.find_signatures(list(slow)))
        return [LongRecording(name, *pair, len(pair[1])) for name, pair in zip(names, slow.items())]

    def fingerprint(self, recording: LongRecording) -> str:
        return resumable.hash_json([recording.file, recording.segments])

    def make(self, recording: LongRecording, path: str, on_progress: resumable.OnProgress) -> CutReceipt:
        receipt = CutReceipt(recording.file, num_records=recording.num_items)
        with open(path, "wb") as output:
            for segment, waveform, reason in self._read(recording):
                receipt.places.append([segment, output.tell(), len(waveform), reason])
                output.write(waveform.tobytes())
                on_progress(len(receipt.places), 0)
        return receipt

    def find(self, item: sharding.LabelledUtterance) -> Optional[np.ndarray]:
        """Returns the waveform of an item, float32 [num_samples], or None if its recording was not cut.

        Raises RejectedRecording if the recording cannot be used, and OSError if the disk failed.
        """
        audio, segment = item.utterance.audio, item.utterance.segment
        path = os.path.join(self.directory, self._name(audio, item.signature))
        start, num_samples, reason = _read_places(f"{path}.json").get(segment, (0, 0, ""))
        if reason:
            raise RejectedRecording(reason)
        if not num_samples:
            return None
        with files.open_binary(f"{path}:{start}+{4 * num_samples}" if urls.is_remote(path) else path) as file:
            return np.fromfile(file, np.float32, num_samples, offset=0 if urls.is_remote(path) else start)

    def _name(self, audio: str, signature: Optional[tuple[int, int]]) -> str:
        return resumable.hash_json([audio, signature, self.sample_rate, self.max_seconds]) + ".cut"

    def _read(self, recording):
        """Yields (segment, waveform, rejection reason or "") for each segment."""
        values = recording.audio, recording.segments, self.sample_rate, self.max_seconds
        try:
            for segment, read in zip(recording.segments, segment_reader.read(*values)):
                if not isinstance(read, audio_files.AudioError):
                    yield segment, read, ""
                elif read.reason == audio_files.DISK_FAILED:
                    raise read
                else:
                    yield segment, np.empty(0, np.float32), read.reason
        except OSError as error:
            raise errors.store_failed(recording.audio, error) from error


def _is_slow(audio: str) -> bool:
    if urls.is_remote(audio):
        return True
    with contextlib.suppress(OSError, ValueError), files.open_binary(audio) as file:
        return containers.find_format(lambda n, start: os.pread(file.fileno(), n, start)) in containers.SLOW
    return False


@functools.lru_cache(maxsize=1 << 10)
def _read_places(path: str) -> dict[manifest.Segment, tuple[int, int, str]]:
    with contextlib.suppress(FileNotFoundError):
        return {tuple(segment): tuple(place) for segment, *place in CutReceipt.load(path).places}
    return {}
