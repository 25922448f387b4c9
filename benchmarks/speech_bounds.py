"""Finds where the speech of a recording begins and ends by its level, for measurements."""

import numpy as np

_FRAMES_PER_SECOND = 100
_NUM_FRAMES, _MIN_LOUD = 5, 4  # speech is where so many of so many consecutive frames are loud
_SMALLEST_RANGE, _LARGEST_RANGE = 20.0, 40.0  # dB between the levels of speech and noise


def find_speech(waveform: np.ndarray, rate: int) -> tuple[int, int]:
    """Returns the sample in which speech begins and the one after its end.

    A frame of 10 ms is loud if its level is above the middle, in dB, between the levels of speech and noise:
    the 95th percentile of all frames, and the 5th, which counts as 20 to 40 dB lower. A threshold that
    depends on the peak alone takes the noise of a room for speech.

    Args:
      waveform: float [num_samples], with at least 50 ms of speech.
      rate: samples per second.
    """
    size = rate // _FRAMES_PER_SECOND
    frames = waveform[: len(waveform) // size * size].reshape(-1, size)
    levels = 10 * np.log10(np.mean(np.square(frames, dtype=np.float64), axis=1) + 1e-12)
    noise, speech = np.percentile(levels, (5, 95))
    loud = levels > speech - np.clip(speech - noise, _SMALLEST_RANGE, _LARGEST_RANGE) / 2
    places = np.flatnonzero(np.convolve(loud, np.ones(_NUM_FRAMES), "valid") >= _MIN_LOUD)
    return int(places[0]) * size, int(places[-1] + _NUM_FRAMES) * size
