import errno

import pytest

from tfrecord_builder import errors, files, manifest
from tfrecord_builder.augmentation import augmentation_config, copies, sources
from tfrecord_builder.building import listing

Variant = copies.Variant


@pytest.mark.parametrize(
    ("split", "changes", "variants"),
    [
        ("train", {}, [("u1", None), ("u1~speed0.8", Variant(0.8))]),
        ("dev", {}, [("u1", None)]),
        (
            "train",
            {"speed": 1.25, "volume_db": -3.0},
            [
                ("u1", Variant(1.25, volume_db=-3.0)),
                ("u1~speed0.8", Variant(1.0, volume_db=-3.0)),
            ],
        ),
        ("dev", {"speed": 1.25}, [("u1", Variant(1.25))]),
        ("train", {"speed": 1.25}, [("u1", Variant(1.25)), ("u1~speed0.8", None)]),
    ],
)
def test_the_corpus_own_speed_and_volume_come_on_top(split, changes, variants):
    utterance = manifest.Utterance("u1", "/c/u1.wav", "", "好", "", split, **changes)
    found = listing.list_copies(
        utterance, augmentation_config.AugmentationConfig(speed_perturb_factors=(1.0, 0.8)), sources.Sources()
    )
    assert list(found) == variants


def test_a_failing_disk_is_not_a_missing_recording(monkeypatch):
    def fail(path):
        raise OSError(errno.ESTALE, "Stale file handle")

    utterance = manifest.Utterance("u", "/c/a.wav", "s", "", "", "train")
    monkeypatch.setattr(files, "size_and_time", fail)
    with pytest.raises(errors.UserError, match=r"/c/a.wav: .*cannot be read \(Stale file handle\)"):
        list(listing._with_signatures(iter([utterance])))
