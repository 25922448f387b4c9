"""Samples of a split: the utterances whose hashed ids are low, in any batch."""

from __future__ import annotations

import zlib

from estimator_asr.experiment import config, task_spec
from estimator_asr.inputs import input_fn, splits
from tfrecord_builder.data import dataset_info


def read(data_dir: str, max_utterances: int) -> list[dict]:
    infos = dataset_info.load_all((data_dir,))
    source = splits.read_split(infos, (data_dir,), "test", task_spec.ACOUSTIC)
    return list(input_fn.read_sample(source, config.InputConfig(), max_utterances))


def test_reads_the_utterances_with_low_hashes(tiny_export):
    names = {name for batch in read(tiny_export.data_dir, 4) for name in batch["utterance_id"].tolist()}
    assert names == {f"u{i}".encode() for i in range(8) if zlib.crc32(f"u{i}".encode()) < 2**31}
    assert 0 < len(names) < 8


def test_all_features_of_a_row_belong_to_one_utterance(tiny_export):
    for batch in read(tiny_export.data_dir, 8):
        for name, text in zip(batch["utterance_id"], batch["transcript"]):
            assert tiny_export.utterances[name.decode()][1] == text.decode()
