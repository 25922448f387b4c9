import dataclasses

import small_corpora

from tfrecord_builder import frontend, labels, manifest, plan


def _items(*names, split="train", audio=None):
    return [
        plan.Item(
            manifest.Utterance(name, audio, "s", "你", "", split), labels.Labels("你", ("ni3",), ("你",))
        )
        for name in names
    ]


def _settings(**changes):
    saved = small_corpora.make_vocabularies(labels.Labels("你", ("ni3",), ("你",)))
    return dataclasses.replace(plan.Settings(saved, frontend.FrontendConfig(), "float16", 30.0), **changes)


def test_every_utterance_once_in_an_order_that_the_listing_does_not_decide():
    items = _items(*"abcdefg")
    shards = plan.make_shards(items, 3)
    assert shards == plan.make_shards(items[::-1], 3)
    assert sorted(len(shard.items) for shard in shards) == [2, 2, 3]
    assert sorted(item.utterance.utterance_id for shard in shards for item in shard.items) == list("abcdefg")


def test_order_is_that_of_the_sha256_of_the_ids():
    (shard,) = plan.make_shards(_items(*"abc"), 1)
    assert "".join(item.utterance.utterance_id for item in shard.items) == "cba"  # 2e7d.. 3e23.. ca97..


def test_splits_have_shards_of_their_own_and_none_is_empty():
    shards = plan.make_shards(_items(*"abc") + _items("d", split="dev"), 2)
    assert [(shard.split, shard.file) for shard in shards] == [
        ("dev", "dev-00000-of-00001.tfrecord"),
        ("train", "train-00000-of-00002.tfrecord"),
        ("train", "train-00001-of-00002.tfrecord"),
    ]


def test_fingerprint_changes_with_whatever_changes_the_bytes(tmp_path):
    audio = small_corpora.write_audio(tmp_path / "a.wav", small_corpora.tone(0.1))
    items = _items(*"abc", audio=audio)
    shards, settings = plan.make_shards(items, 2), _settings()
    first = plan.fingerprint(shards, settings)
    assert first == plan.fingerprint(plan.make_shards(items, 2), _settings())
    others = [
        plan.fingerprint(plan.make_shards(items, 3), settings),
        plan.fingerprint(plan.make_shards(items[:2], 2), settings),
        plan.fingerprint(shards, _settings(max_seconds=20.0)),
        plan.fingerprint(shards, _settings(fbank_dtype="float32")),
        plan.fingerprint(shards, _settings(frontend=frontend.FrontendConfig(num_mel_bins=40))),
        plan.fingerprint(shards, _settings(frontend=None)),
        plan.fingerprint(
            shards,
            _settings(vocabularies=small_corpora.make_vocabularies(labels.Labels("好", ("hao3",), ()))),
        ),
    ]
    small_corpora.write_audio(audio, small_corpora.tone(0.2))
    others.append(plan.fingerprint(shards, settings))
    assert len({first, *others}) == 9
