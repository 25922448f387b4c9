"""Names of the statuses, and sentences about them."""

from __future__ import annotations

from estimator_asr.exporting.saved_model import statuses
from tfrecord_builder.audio import audio_files


def test_every_status_has_a_sentence():
    names = ["ok", "malformed", "empty", "silent", "not_finite", "too_long", "unfinished"]
    assert list(statuses.SENTENCES) == names


def test_the_sentence_of_silence_names_the_peak():
    assert f"at least {audio_files.SILENT_PEAK:g} of full scale" in statuses.SENTENCES[statuses.SILENT]
