"""Fixtures of the tests of exports."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def trained_models(tiny_export) -> list:
    """The acoustic and the language model of tiny_export, opened."""
    from estimator_asr.exporting.saved_model import trained_model

    directories = tiny_export.acoustic_dir, tiny_export.language_dir
    return [trained_model.open_trained_model(path) for path in directories]


@pytest.fixture(scope="module")
def waveform_batch(tiny_export) -> dict[str, np.ndarray]:
    """The waveforms of tiny_export, as inputs of the signature `waveform`."""
    waveforms = [waveform for *_, waveform in tiny_export.utterances.values()]
    padded = np.zeros([len(waveforms), max(map(len, waveforms))], np.float32)
    for row, waveform in zip(padded, waveforms):
        row[: len(waveform)] = waveform
    return {"waveform": padded, "num_samples": np.array(list(map(len, waveforms)), np.int32)}
