"""Fixtures for the tests of serving."""

import shutil

import numpy as np
import pytest

from estimator_asr.serving.transcripts import pauses


@pytest.fixture
def loud_is_speech(monkeypatch):
    """Detects loud samples as speech, because the recordings of the tests are not real speech."""
    monkeypatch.setattr(
        pauses, "load_detector", lambda: lambda samples: float(np.max(np.abs(samples)) > 0.02)
    )


@pytest.fixture(scope="session")
def waveform(tiny_export):
    return tiny_export.utterances["u1"][-1]


@pytest.fixture
def export_dir(tiny_export, tmp_path):
    """A copy of the tiny export, whose only version is 1."""
    shutil.copytree(tiny_export.version_dir, tmp_path / "export" / "1")
    return tmp_path / "export"
