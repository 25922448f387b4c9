import itertools
import json

import numpy as np
import pytest
import small_corpora

from tfrecord_builder.audio.augmentation import copies
from tfrecord_builder.building import shard_statistics, sharding
from tfrecord_builder.data import dataset_info, manifest, schema
from tfrecord_builder.labels import labelling

KNOWN = labelling.Labels("你好", ("ni3", "hao3"), ("你", "好"))
measure = shard_statistics.measure_loudness
SAVED = small_corpora.make_vocabularies(KNOWN)


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
    mean, stddev = shard_statistics.add_up(shards)["train"].feature_moments()
    assert mean == (4.0, 10.0)
    np.testing.assert_allclose(stddev, [np.sqrt(5.0), 0.0])


def test_sums_are_the_same_to_the_last_bit_in_any_order_and_division():
    rng = np.random.default_rng(0)
    found = [rng.normal(5, 4, [n, 3]).astype(np.float16) for n in rng.integers(1, 500, 200)]

    def count(utterances):
        counted = shard_statistics.ShardStatistics(file="", split="train")
        for fbank in utterances:
            counted.count_features(fbank)
        return counted

    forwards, parts = count(found), count(found[150:])
    parts.add(count(found[149::-1]))
    assert parts.feature_sum == forwards.feature_sum
    assert parts.feature_square_sum == forwards.feature_square_sum


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
    found = shard_statistics.add_up(shards)
    assert set(found) == {"train", "dev"}
    train = shard_statistics.make_split_info(found["train"], shards[:2], 5, {"dev": 1}, {"dev": 2})
    assert (train.num_utterances, train.num_speakers, train.seconds) == (3, 2, 1.75)
    assert list(train.frame_lengths.items()) == [(9, 1), (10, 2)]
    assert (train.num_sentences, train.shared_sentences, train.shared_speakers) == (5, {"dev": 1}, {"dev": 2})
    dev = shard_statistics.make_split_info(found["dev"], shards[2:], 4, {}, {})
    assert dev.unknown_tokens == 3
    assert dev.shards == (dataset_info.ShardInfo("c", 4, 7, "d1"),)


def test_speakers_of_several_splits():
    speakers = {"train": ["x", "y"], "dev": ["y", "z"], "test": [""]}
    shards = [_shard([], split=name, speakers=each) for name, each in speakers.items()]
    totals = shard_statistics.add_up(shards)
    counts = {name: shard_statistics.count_shared_speakers(totals, name) for name in totals}
    assert counts == {"train": {"dev": 1}, "dev": {"train": 1}, "test": {}}


def test_unknown_speakers_are_not_counted():
    shards = [
        _shard([], file="a", speakers=["", "one/", "two/s1"]),
        _shard([], file="b", split="dev", speakers=[""]),
    ]
    found = shard_statistics.add_up(shards)
    assert (found["train"].speakers, found["dev"].speakers) == (["two/s1"], [])


def _count(statistics, name, num_frames=8, level=None, found=KNOWN, duration_ms=1234, dtype=np.float16):
    item = sharding.LabelledUtterance(
        manifest.Utterance(name, f"/c/{name}.wav", "s", "", "", "train", 1.5, 2.0), found
    )
    fbank = np.random.default_rng(num_frames).normal(10, 4, [num_frames, 3]).astype(dtype)
    ids = SAVED.tokens.encode(found.tokens), SAVED.characters.encode(found.characters)
    record = schema.Record(name, "s", found.transcript, "", *ids, fbank, duration_ms)
    statistics.count(record, item, SAVED, level or shard_statistics.Loudness(-3.5, -20.25, 0))
    return fbank


def _empty(**fields):
    return shard_statistics.ShardStatistics(**{"file": "f", "split": "train", **fields})


def test_statistics_for_the_report_are_counted():
    statistics = _empty()
    unknown = labelling.Labels("再好", ("zai4", "hao3"), ("再", "好"))
    _count(statistics, "u0", duration_ms=99)
    _count(statistics, "u1", found=unknown, level=shard_statistics.Loudness(0.1, -20.0, 7), duration_ms=100)
    assert statistics.durations == {"0": 1, "1": 1}
    assert statistics.token_counts == {"ni3": 1, "hao3": 2, "zai4": 1}
    assert statistics.character_counts == {"你": 1, "好": 2, "再": 1}
    assert statistics.rms_levels == {"-21": 1, "-20": 1}
    assert statistics.peak_levels == {"-4": 1, "0": 1}
    assert (statistics.clipped_utterances, statistics.clipped_samples) == (1, 7)
    assert statistics.longest[0] == [100, "u1", "/c/u1.wav", 1.5, 2.0]
    assert [entry[:2] for entry in statistics.loudest] == [[-200, "u1"], [-202, "u0"]]
    assert [entry[:2] for entry in statistics.quietest] == [[202, "u0"], [200, "u1"]]


def test_wordless_copies_are_left_out_of_the_levels():
    statistics, sound = _empty(), copies.Variant(sound="music", is_wordless=True)
    item = sharding.LabelledUtterance(
        manifest.Utterance("u", "/c/u.wav", "s", "", "", "train"), KNOWN, variant=sound
    )
    record = schema.Record("u", "s", "", "", [], [], np.ones([8, 3], np.float16), 100)
    statistics.count(record, item, SAVED, shard_statistics.Loudness(0.1, -20.0, 7))
    assert (statistics.rms_levels, statistics.peak_levels, statistics.clipped_utterances) == ({}, {}, 0)
    assert (statistics.num_frames, statistics.longest) == (8, [])


def test_text_records_have_no_audio_statistics():
    statistics = _empty()
    item = sharding.LabelledUtterance(manifest.Utterance("t", None, "", "你好", "", "train"), KNOWN)
    statistics.count(schema.Record("t", "", "你好", "ni3 hao3", [2, 1], [1, 2]), item, SAVED)
    assert statistics.token_counts == {"ni3": 1, "hao3": 1}
    assert (statistics.durations, statistics.rms_levels, statistics.longest) == ({}, {}, [])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_feature_sums_are_those_of_the_stored_numbers(dtype):
    statistics = _empty()
    frames = [_count(statistics, f"u{i}", 50 + i, dtype=dtype).astype(np.float64) for i in range(5)]
    frames = np.concatenate(frames)
    assert statistics.num_frames == len(frames)
    np.testing.assert_allclose(statistics.feature_sum, frames.sum(axis=0), rtol=1e-7)
    np.testing.assert_allclose(statistics.feature_square_sum, np.square(frames).sum(axis=0), rtol=1e-8)


def test_any_division_into_shards_in_any_order_adds_up_to_the_same():
    def counted(names):
        statistics = _empty()
        for name in names:
            number = int(name[1:])
            level = shard_statistics.Loudness(-number / 7, -20 - number / 3, number % 2)
            _count(statistics, name, 5 + number, level, duration_ms=97 * number)
        statistics.speakers = ["s"]
        return statistics

    names = [f"u{i}" for i in range(24)]
    whole = _empty()
    whole.add(counted(names))
    for parts in itertools.permutations((names[:1], names[1:9], names[9:])):
        total = _empty()
        for part in parts:
            total.add(counted(part))
        assert json.dumps(vars(total), sort_keys=True) == json.dumps(vars(whole), sort_keys=True)
    assert whole.num_records == 24 and len(whole.longest) == 10 and whole.speakers == ["s"]


def test_all_statistics_survive_saving_and_loading(tmp_path):
    statistics = _empty()
    _count(statistics, "u0")
    statistics.save(str(tmp_path / "s.json"))
    assert shard_statistics.ShardStatistics.load(str(tmp_path / "s.json")) == statistics


def test_a_full_scale_sine_has_minus_three_dbfs():
    level = measure(small_corpora.tone(2.0, level=1.0))
    assert level.peak_dbfs == pytest.approx(0.0, abs=1e-4)
    assert level.rms_dbfs == pytest.approx(-3.0103, abs=1e-3)
    assert level.clipped_samples == 0


def test_half_the_amplitude_is_six_decibels_less_on_either_side():
    for waveform in ([0.5, -0.25, 0.25], [-0.5, 0.25, -0.25]):
        level = measure(np.array(waveform, np.float32))
        assert level.peak_dbfs == pytest.approx(-6.0206, abs=1e-3)
        assert level.rms_dbfs == pytest.approx(10 * np.log10(0.375 / 3), abs=1e-3)


def test_the_rms_includes_every_sample():
    waveform = np.random.default_rng(0).normal(0, 0.1, 256 * 40 + 77).astype(np.float32)
    expected = 10 * np.log10(np.mean(np.square(waveform.astype(np.float64))))
    assert measure(waveform).rms_dbfs == pytest.approx(expected, abs=1e-5)
    assert measure(waveform[:1]).rms_dbfs == pytest.approx(20 * np.log10(abs(waveform[0])), abs=1e-4)


def test_a_long_recording_loses_no_precision():
    waveform = np.full(16000 * 600, 0.1, np.float32)
    assert measure(waveform).rms_dbfs == pytest.approx(-20.0, abs=1e-5)


def test_silence_is_reported_as_the_floor_level():
    assert measure(np.zeros(100, np.float32)) == shard_statistics.Loudness(-120.0, -120.0, 0)
    assert measure(np.full(100, 1e-9, np.float32)).rms_dbfs == -120.0


def test_only_runs_of_full_scale_samples_count_as_clipping():
    one, two, three = [0, 1, 0], [0, 1, 1, 0], [0, 1, 1, 1, 0]
    negative, changing = [0, -1, -1, -1, -1, 0], [0, 1, -1, 1, 0]
    waveform = np.array([1, 1, 1, *one, *two, *three, *negative, *changing, 1.2, 0.9995, 1], np.float32)
    assert measure(waveform).clipped_samples == 3 + 3 + 4 + 3 + 3
    assert measure(waveform[3:10]).clipped_samples == 0
    assert measure(np.full(100, 0.99, np.float32)).clipped_samples == 0
