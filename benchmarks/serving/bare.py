"""The bare SavedModel for the benchmark of the server: clips per second in batches of each size."""

import itertools
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.serving import clips as serving_clips
from estimator_asr.exporting.saved_model import recogniser


def time_sizes(
    saved_model: str, clips: Sequence[serving_clips.Clip], sizes: Sequence[int], seconds: float
) -> dict[int, float]:
    """Returns {batch size: clips per second}, each measured for some seconds after a warm-up batch."""
    model = recogniser.load(recogniser.find_version(saved_model), "serving_default")
    try:
        return {size: _time(model, clips, size, seconds) for size in sizes}
    finally:
        model.session.close()


def _time(model: recogniser.Recogniser, clips, size: int, seconds: float) -> float:
    contents = itertools.cycle([clip.content for clip in clips])

    def run():
        model.fetch({"wav_bytes": np.array(list(itertools.islice(contents, size)), object)})

    run()
    started, count = time.perf_counter(), 0
    while time.perf_counter() < started + seconds:
        run()
        count += size
    return count / (time.perf_counter() - started)
