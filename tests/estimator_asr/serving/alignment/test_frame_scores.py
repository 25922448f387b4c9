"""Frames that are stored in a temporary file, and the tokens of CTC's best path."""

import errno
import types

import numpy as np
import pytest

from estimator_asr.serving.alignment import frame_scores
from tfrecord_builder import errors


def test_frames_are_read_as_they_were_stored():
    store = frame_scores.FrameStore(3)
    first = np.array([[0, -0.5, -2.25], [-1, -9999, -np.inf]])
    assert store.add(first) == 0 and store.add(np.zeros([4, 3])) == 2
    np.testing.assert_array_equal(store.read(0, 1), [[0, -0.5, -2.25]])
    np.testing.assert_allclose(store.read(1, 2), [[-1, -9999, -6e4], [0, 0, 0]], rtol=1e-3)
    assert store.read(0, 1).dtype == np.float32


def test_a_full_disk_is_one_sentence(monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    store = frame_scores.FrameStore(3)
    monkeypatch.setattr(store, "_file", types.SimpleNamespace(seek=fail))
    with pytest.raises(errors.UserError, match="outputs cannot be stored .No space left on device."):
        store.add(np.zeros([1, 3]))


def test_the_tokens_of_the_best_path_begin_where_they_are_first_emitted(tiny_export):
    """The frames hao3, hao3, blank, hao3 and ni3 contain the tokens hao3, hao3 and ni3."""
    from estimator_asr.exporting.saved_model import recogniser

    version = recogniser.load_version(tiny_export.version_dir)
    scorer = frame_scores.FrameScorer([version])
    log_probs = np.log(0.9 * np.eye(7)[[1, 1, 6, 1, 3]] + 0.01)
    found = scorer._listen(log_probs, 0.04)
    assert (found.tokens, found.places.tolist(), found.num_frames) == (["hao3", "hao3", "ni3"], [0, 3, 4], 5)
    assert scorer._listen(np.zeros([0, 7]), 0.0).tokens == []
