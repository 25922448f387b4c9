"""Utterances of one recording are read together."""

from __future__ import annotations

import numpy as np
import pytest
import telephone_files

from estimator_asr.serving import recording_units
from estimator_asr.serving.alignment import utterance_units
from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, containers
from tfrecord_builder.data import manifest


def make_unit(*rows):
    """Returns a unit of utterances, each a path, a start and seconds."""
    signed = []
    for path, *segment in rows:
        utterance = manifest.Utterance("u", path, "", "今天", "", "train", *segment)
        recording = recordings.RecordingFile(path, "u", utterance=utterance)
        signed.append((recording, recording_units._sign(recording)))
    return recording_units.RecordingUnit("0.jsonl", tuple(signed))


def test_a_container_is_decoded_once_for_successive_utterances(tmp_path, monkeypatch):
    pytest.importorskip("av")
    path, missing = str(tmp_path / "a.m4a"), str(tmp_path / "missing.wav")
    (tmp_path / "a.m4a").write_bytes(telephone_files.encode("m4a", 5.0))
    expected = [audio_files.read_audio(path, 16000, 300.0, start, 1.0) for start in (0.5, 3.0)]
    decode, decoded = containers.decode, []
    monkeypatch.setattr(containers, "decode", lambda *values: decoded.append(1) or decode(*values))
    unit = make_unit((path, 0.5, 1.0), (path, 3.0, 1.0), (missing, 0.0, 1.0))
    *read, problem = utterance_units._read_utterances(unit, 16000)
    np.testing.assert_array_equal(read, expected)
    assert len(decoded) == 1 and isinstance(problem, errors.UserError)
