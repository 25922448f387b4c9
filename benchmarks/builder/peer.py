"""The peer's whole program, as a user would write it: turns a manifest into a TFRecord file.

python -m benchmarks.builder.peer MANIFEST OUTPUT

soundfile, kaldi-native-fbank (80 bins of log-mel, dither 0, float16), tf.train.Example and
tf.io.TFRecordWriter; no checks, no statistics. It imports nothing else.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

import kaldi_native_fbank
import numpy as np
import soundfile
import tensorflow as tf


def main(manifest: str, output: str) -> None:
    """Writes a record for each line of the manifest."""
    write(output, _read(manifest))


def write(output: str, utterances: Iterable[tuple[str, dict[str, str]]]) -> None:
    """Writes a record for each audio file and its texts."""
    token_ids = {}
    with tf.io.TFRecordWriter(output) as writer:
        for path, texts in utterances:
            samples, sample_rate = soundfile.read(path, dtype="float32")
            fbank = make_fbank(samples, sample_rate).astype(np.float16)
            ids = [token_ids.setdefault(token, len(token_ids)) for token in texts["pronunciation"].split()]
            duration_ms = round(1000 * len(samples) / sample_rate)
            writer.write(make_example(texts, ids, fbank, duration_ms).SerializeToString())


def make_fbank(samples: np.ndarray, sample_rate: int) -> np.ndarray:
    """Returns log-mel features, float32 [num_frames, 80]."""
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.samp_freq = sample_rate
    options.frame_opts.dither = 0
    options.mel_opts.num_bins = 80
    extractor = kaldi_native_fbank.OnlineFbank(options)
    extractor.accept_waveform(sample_rate, memoryview(samples * 32768))
    extractor.input_finished()
    return np.stack([extractor.get_frame(index) for index in range(extractor.num_frames_ready)])


def make_example(
    texts: dict[str, str], ids: Sequence[int], fbank: np.ndarray, duration_ms: int
) -> tf.train.Example:
    """Returns a record with the same keys as ours."""
    numbers = {
        "token_ids": ids,
        "character_ids": ids,
        "num_frames": [len(fbank)],
        "duration_ms": [duration_ms],
    }
    features = {key: _bytes_feature(text.encode()) for key, text in texts.items()}
    for key, values in numbers.items():
        features[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    features["fbank"] = _bytes_feature(fbank.tobytes())
    return tf.train.Example(features=tf.train.Features(feature=features))


def _read(manifest: str) -> Iterator[tuple[str, dict[str, str]]]:
    with open(manifest, encoding="utf-8") as file:
        next(file)
        for line in file:
            name, audio, speaker, transcript, pronunciation, _ = line.rstrip("\n").split("\t")
            texts = {
                "utterance_id": name,
                "speaker": speaker,
                "transcript": transcript,
                "pronunciation": pronunciation,
            }
            yield os.path.join(os.path.dirname(manifest), audio), texts


def _bytes_feature(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


if __name__ == "__main__":
    main(*sys.argv[1:])
