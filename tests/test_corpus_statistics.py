from __future__ import annotations

import dataclasses

import numpy as np
import small_records

from estimator_asr.training import corpus_statistics


def test_statistics_of_two_directories_are_those_of_all_frames(tmp_path):
    rng = np.random.default_rng(0)
    parts = [rng.normal(3, 1, [30, 2]), rng.normal(-1, 4, [10, 2])]
    info = small_records.make_data(str(tmp_path / "data"), splits=[("train", 1)])
    infos = []
    for part in parts:
        split = dataclasses.replace(info.splits["train"], frame_lengths={len(part): 1})
        infos.append(
            dataclasses.replace(
                info,
                feature_mean=tuple(part.mean(axis=0)),
                feature_stddev=tuple(part.std(axis=0)),
                splits={"train": split},
            )
        )
    mean, stddev = corpus_statistics.combine(infos, "train")
    together = np.concatenate(parts)
    np.testing.assert_allclose(mean, together.mean(axis=0))
    np.testing.assert_allclose(stddev, together.std(axis=0))


def test_a_directory_without_the_split_does_not_count(tmp_path):
    first = small_records.make_data(str(tmp_path / "a"), feature_mean=1.0)
    second = small_records.make_data(str(tmp_path / "b"), splits=[("dev", 2)], feature_mean=9.0)
    mean, stddev = corpus_statistics.combine([first, second], "train")
    np.testing.assert_allclose(mean, np.ones(12))
    np.testing.assert_allclose(stddev, np.ones(12))
