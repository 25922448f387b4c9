"""Recognises recordings chunk by chunk, as streams, and measures the delay of each token."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from estimator_asr.exporting.saved_model import recogniser, statuses, stream_client
from estimator_asr.scoring import delays
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import dataset_info


def check_lengths(data: Mapping[str, dataset_info.DatasetInfo], split: str) -> None:
    """Raises errors.UserError if any utterance in a split is too long for a stream.

    `data` maps the path of each data directory to its dataset_info.
    """
    seconds = statuses.STREAM_SECONDS
    for data_dir, info in data.items():
        if split not in info.splits or info.frontend is None:
            continue
        most = frontend.num_frames(seconds * info.frontend.sample_rate, info.frontend)
        lengths = info.splits[split].frame_lengths
        num_long = sum(count for length, count in lengths.items() if length > most)
        if num_long:
            raise errors.UserError(
                f"{data_dir}: {num_long} utterances in split {split} are longer than {seconds} s, the limit "
                f"of --streaming; omit --streaming, or build the data again with --max_seconds={seconds}"
            )


@dataclasses.dataclass(frozen=True)
class ChunkwiseRecogniser:
    """A replacement for a Recogniser that recognises chunk by chunk; also outputs each token's delay.

    All other outputs are those after the last chunk. The delay is measured from the end of the token's
    syllable, which is found by recognising the whole recording.
    """

    whole: recogniser.Recogniser
    streams: stream_client.StreamClient
    chunk_frames: int
    config: frontend.FrontendConfig

    @property
    def session(self) -> tf.compat.v1.Session:
        return self.whole.session

    def run(self, batch: Mapping[str, np.ndarray]) -> dict[str, list]:
        """See recogniser.Recogniser.run."""
        num_frames, partials = batch["num_frames"], []
        state = self.streams.start(len(num_frames))
        for piece in stream_client.cut(batch, ("fbank", "num_frames"), self.chunk_frames):
            outputs, state = self.streams.feed(state, piece)
            partials.append([[item["pinyin"] for item in row] for row in outputs["characters"]])
        whole = self.whole.run(batch)["characters"]
        times = [self._sent_seconds(num_frames, index) for index in range(len(partials))]
        columns = zip(zip(*partials), zip(*times), whole)
        seconds = [[round(delay, 3) for delay in delays.measure(*column)] for column in columns]
        return {**outputs, delays.OUTPUT: seconds}

    def _sent_seconds(self, num_frames: np.ndarray, index: int) -> np.ndarray:
        """Returns the seconds of audio sent when chunk `index` is complete, float64 [batch]."""
        sent_frames = np.minimum(num_frames, (index + 1) * self.chunk_frames)
        samples = (sent_frames - 1) * self.config.hop_samples + self.config.window_samples
        return samples / self.config.sample_rate
