"""Compares the utterances of a corpus with their transcripts, in units of many recordings."""

from __future__ import annotations

import collections
import itertools
import json
from collections.abc import Iterator

import numpy as np

from estimator_asr.serving import recording_units
from estimator_asr.serving.alignment import forced_alignment
from estimator_asr.serving.transcripts import pauses, transcriber
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.building import resumable
from tfrecord_builder.data import manifest

_MAX_SECONDS = 300.0  # longer utterances cannot be aligned; see forced_alignment

Owner = tuple[int, int]  # indices of a recording in its unit, and of an utterance in the recording


class UtteranceWriter(recording_units.RecordingWriter):
    """Writes a row for each recording, whose `utterances` are dicts with id, seconds and the result of `keep`.

    The utterances of a unit are recognised in common batches. Here, `keep` takes a list of utterances and a
    list of what was heard in them, and returns a dict for each, as suspects.check does.
    """

    min_unit_size = 50

    def make(
        self, unit: recording_units.RecordingUnit, path: str, on_progress: resumable.OnProgress
    ) -> resumable.ShardReceipt:
        versions = [recording_units.load_export(*export) for export in self.exports]
        sample_rate = versions[0].info.frontend.sample_rate
        seconds: dict[Owner, float] = {}
        problems: dict[int, list[str]] = {number: [] for number in range(unit.num_items)}
        owners: list[Owner] = []
        pieces = _read_pieces(unit, sample_rate, seconds, problems, owners, on_progress)
        batches = transcriber.recognise_pieces(self.find_model(versions), pieces, sample_rate)
        segments = collections.defaultdict(list)
        for segment, owner in zip(itertools.chain.from_iterable(batches), owners):
            segments[owner].append(segment)
        utterances = [unit.signed[number][0].utterances[index] for number, index in seconds]
        heard = [forced_alignment.join_segments(segments[owner]) for owner in seconds]
        results: dict[int, list[dict]] = {number: [] for number in problems}
        for (owner, duration), utterance, result in zip(
            seconds.items(), utterances, self.keep(utterances, heard)
        ):
            values = {"id": utterance.utterance_id, "seconds": round(duration, 3), **result}
            results[owner[0]].append(values)
        with open(path, "w", encoding="utf-8") as file:
            for number, (_, signature) in enumerate(unit.signed):
                row = {"signature": signature, "problem": "\n".join(problems[number])}
                file.write(f"{json.dumps({**row, 'utterances': results[number]})}\n")
        notes = [f"error: {problem}" for lines in problems.values() for problem in lines]
        return resumable.ShardReceipt(unit.file, unit.num_items, notes=notes)


def _read_pieces(unit, sample_rate, seconds, problems, owners, on_progress) -> Iterator[pauses.Piece]:
    """Yields the audio of all utterances, and notes the owner of each piece before it is yielded.

    It also notes the duration of each utterance that can be read, and the problems of each recording.
    """
    for number, (recording, signature) in enumerate(unit.signed):
        for index, utterance in enumerate(recording.utterances):
            try:
                recording_units.check_unchanged(recording, signature)
                waveform = _read(utterance, sample_rate)
            except errors.UserError as error:
                problems[number].append(f"{utterance.utterance_id}: {error}")
                continue
            seconds[number, index] = len(waveform) / sample_rate
            for piece in pauses.cut([waveform], sample_rate):
                owners.append((number, index))
                yield piece
        on_progress(number + 1, 0)


def _read(utterance: manifest.Utterance, sample_rate: int) -> np.ndarray:
    segment = utterance.start_seconds, utterance.seconds, utterance.channel
    waveform = audio_files.read_audio(utterance.audio, sample_rate, _MAX_SECONDS, *segment)
    if not np.isfinite(waveform).all():
        raise errors.UserError(f"{utterance.audio} contains NaN or Inf samples; save the file again")
    return waveform
