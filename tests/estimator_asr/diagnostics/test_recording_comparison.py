from __future__ import annotations

import os

import numpy as np
import pytest
import small_corpora
import tensorflow as tf

from estimator_asr.diagnostics import recording_comparison
from tfrecord_builder import frontend, recordings

CONFIG = frontend.FrontendConfig(num_mel_bins=20)
NOISE = np.random.default_rng(1).normal(0, 0.1, 8000).astype(np.float32)


def extract(samples):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return session.run(tf.cast(frontend.extract(samples, CONFIG), tf.float16)).astype(np.float32)


@pytest.fixture
def path(tmp_path):
    return small_corpora.write_audio(tmp_path / "a.wav", NOISE, subtype="FLOAT")


def compare(record, recording, dtype="float16"):
    return next(recording_comparison.compare([(record, recording)], CONFIG, dtype))


def test_features_of_the_recording_are_the_record(path):
    result = compare(extract(NOISE), recordings.Recording(path))
    assert result == recording_comparison.Result("differs by at most 0.0e+00")


def test_a_part_and_a_channel_are_compared(tmp_path):
    both = np.stack([0 * NOISE, NOISE], axis=1)
    path = small_corpora.write_audio(tmp_path / "b.wav", both, subtype="FLOAT")
    record = extract(NOISE[1600:4800])
    assert compare(record, recordings.Recording(path, 0.1, 0.2, 1)).note == "differs by at most 0.0e+00"
    result = compare(record, recordings.Recording(path))
    assert "shape of the stored features is [18, 20], expected [48, 20] from the" in result.mismatch
    assert result.note == "has another length"


def test_one_step_of_the_stored_type_is_rounding_and_more_is_a_mismatch(path):
    record = extract(NOISE)
    near = np.nextafter(record.astype(np.float16), np.float16(100)).astype(np.float32)
    result = compare(near, recordings.Recording(path))
    assert 0 < float(result.note.split()[-1]) < 0.02 and not result.mismatch
    record[2, 3] += 1
    result = compare(record, recordings.Recording(path))
    assert float(result.note.split()[-1]) == pytest.approx(1, abs=0.05)
    assert result.mismatch.startswith("bin 3 of frame 2 is ") and path in result.mismatch


def test_a_recording_that_has_changed_is_said_to_have(path):
    result = compare(extract(NOISE) + 1, recordings.Recording(path, num_bytes=7))
    size = os.path.getsize(path)
    assert f"the recording {path} (now {size} bytes, 7 at the build)" in result.mismatch


@pytest.mark.parametrize(
    ("recording", "said"),
    [
        (None, "not named by the data"),
        (
            recordings.Recording("/c/a.wav", is_augmented=True),
            "is an augmented copy of /c/a.wav, whose features differ",
        ),
        (recordings.Recording("/c/gone.wav"), "/c/gone.wav: file does not exist"),
    ],
)
def test_what_cannot_be_compared_is_said_and_is_no_mismatch(recording, said):
    result = compare(extract(NOISE), recording)
    assert said in result.note and not result.mismatch
