import numpy as np

from tfrecord_builder import dataset_info, shard_statistics


def _shard(frames, **fields):
    frames = np.array(frames, np.float64)
    return shard_statistics.ShardStatistics(
        file=fields.pop("file", "f"),
        split=fields.pop("split", "train"),
        num_frames=len(frames),
        feature_sum=frames.sum(axis=0).tolist() if len(frames) else [],
        feature_square_sum=np.square(frames).sum(axis=0).tolist() if len(frames) else [],
        **fields,
    )


def test_feature_moments_are_those_of_all_frames():
    shards = [_shard([[1.0, 10.0], [3.0, 10.0]]), _shard([]), _shard([[5.0, 10.0], [7.0, 10.0]])]
    mean, stddev = shard_statistics.feature_moments(shards)
    assert mean == (4.0, 10.0)
    np.testing.assert_allclose(stddev, [np.sqrt(5.0), 0.0])


def test_no_frames_no_moments():
    assert shard_statistics.feature_moments([_shard([])]) == ((), ())
    assert shard_statistics.feature_moments([]) == ((), ())


def test_splits_add_up_and_speakers_count_once():
    shards = [
        _shard(
            [],
            file="a",
            num_records=2,
            speakers=["x", "y"],
            duration_ms=1500,
            frame_lengths={"9": 1, "10": 1},
        ),
        _shard([], file="b", num_records=1, speakers=["y"], duration_ms=250, frame_lengths={"10": 1}),
        _shard([], file="c", split="dev", num_records=4, num_bytes=7, sha256="d1", unknown_tokens=3),
    ]
    found = shard_statistics.split_infos(shards)
    assert set(found) == {"train", "dev"}
    train = found["train"]
    assert (train.num_utterances, train.num_speakers, train.seconds) == (3, 2, 1.75)
    assert list(train.frame_lengths.items()) == [(9, 1), (10, 2)]
    assert found["dev"].unknown_tokens == 3
    assert found["dev"].shards == (dataset_info.ShardInfo("c", 4, 7, "d1"),)


def test_save_then_load_is_identity(tmp_path):
    shard = _shard([[0.1, 1 / 3]], rejected=[["u", "train", "silent audio"]])
    shard.save(str(tmp_path / "s.json"))
    assert shard_statistics.ShardStatistics.load(str(tmp_path / "s.json")) == shard
