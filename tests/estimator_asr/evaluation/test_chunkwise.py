"""Tests recognition chunk by chunk: the time of each chunk, and the delays of tokens."""

import numpy as np
import pytest

from estimator_asr.evaluation import chunkwise
from tfrecord_builder.audio import frontend


class Streams:
    """Outputs one token per chunk."""

    def start(self, count):
        return {"state_heard": np.zeros(count, int)}

    def feed(self, state, batch):
        heard = state["state_heard"] + (batch["num_frames"] > 0)
        characters = [[{"pinyin": each} for each in "abc"[:count]] for count in heard]
        return {"characters": characters}, {"state_heard": heard}


class Whole:
    session = None

    def run(self, batch):
        syllables = [{"pinyin": each, "end": 0.2 * i} for i, each in enumerate("abc", 1)]
        return {"characters": [syllables, syllables[:2]]}


def test_a_chunk_is_complete_at_the_end_of_its_last_window():
    """Chunks of 32 frames end at 335 and 655 ms; the recordings end at 715 and 415 ms."""
    model = chunkwise.ChunkwiseRecogniser(Whole(), Streams(), 32, frontend.FrontendConfig())
    batch = {"fbank": np.zeros([2, 70, 80], np.float32), "num_frames": np.array([70, 40], np.int32)}
    outputs = model.run({**batch, "utterance_id": [b"u1", b"u2"]})
    assert [len(row) for row in outputs["characters"]] == [3, 2]
    first, second = outputs["emission_delays"]
    assert first == pytest.approx([0.335 - 0.2, 0.655 - 0.4, 0.715 - 0.6])
    assert second == pytest.approx([0.335 - 0.2, 0.415 - 0.4])
