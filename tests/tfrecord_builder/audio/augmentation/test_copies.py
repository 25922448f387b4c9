import dataclasses
import json
import os
import re

import numpy as np
import pytest
import small_augmentation
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import augmentation_config, copies, copy_ids, effects, sounds

Config = augmentation_config.AugmentationConfig
Variant = copies.Variant


def make_config(folders, **changes):
    usual = {"speed_perturb_factors": (0.9, 1.0), "augmented_copies": 2, "volume_db": 6.0}
    return Config(**{**folders, **usual, **changes})


def test_defaults_leave_every_utterance_unchanged():
    assert Config().is_plain
    (variant,) = copies.list_variants("u1", Config(), copies.Sources())
    assert variant == Variant()
    assert variant.name("u1") == "u1"
    waveform = small_augmentation.noise(100)
    assert effects.apply(waveform, small_corpora.SAMPLE_RATE, variant) is waveform


def test_there_is_a_copy_per_speed_with_the_unchanged_one_first():
    config = Config(speed_perturb_factors=(0.9, 1.0, 1.1))
    variants = copies.list_variants("u1", config, copies.Sources())
    assert [each.name("u1") for each in variants] == ["u1", "u1~speed0.9", "u1~speed1.1"]
    assert not config.is_plain
    without = Config(speed_perturb_factors=(0.9, 1.1))
    variants = copies.list_variants("u1", without, copies.Sources())
    assert [each.name("u1") for each in variants] == ["u1~speed0.9", "u1~speed1.1"]


@pytest.mark.parametrize(
    "variant, name",
    [
        (Variant(1.1), "u1~speed1.1"),
        (Variant(1.0, 1, volume_db=2.0), "u1~copy1~volume+2.0dB"),
        (Variant(1.0, 2, volume_db=0.0), "u1~copy2"),
        (Variant(1.0, 1, room="/rooms/far/my room (2).wav"), "u1~copy1~room-my_room_2_"),
        (Variant(1.0, 1, noise="s3://n/雨 声.wav", snr_db=-3.0), "u1~copy1~noise-雨_声-at-3.0dB"),
        (
            Variant(1.1, 3, "/r/hall1.wav", "/n/cafe.wav", 3.0, 1.5, 12.3, -3.1),
            "u1~speed1.1~copy3~room-hall1~noise-cafe-at12.3dB~volume-3.1dB",
        ),
        (Variant(1.0, 1, codec="mp3", codec_setting=24), "u1~copy1~mp3-24kbps"),
        (Variant(1.0, 1, codec="opus", codec_setting=12), "u1~copy1~opus-12kbps"),
        (Variant(1.0, 1, codec="vorbis", codec_setting=3), "u1~copy1~vorbis-quality3"),
        (Variant(1.0, 1, codec="lowpass", codec_setting=5512), "u1~copy1~lowpass-5512Hz"),
        (Variant(1.0, 2, volume_db=2.0, codec="telephone"), "u1~copy2~volume+2.0dB~telephone"),
    ],
)
def test_names_of_copies(variant, name):
    assert variant.name("u1") == name


def test_sampled_copies_stay_the_same_between_versions(folders):
    """Later versions must sample the same values for the same seed."""
    found = small_augmentation.find_sources(**folders)
    names = [each.name("u1") for each in copies.list_variants("u1", make_config(folders), found)]
    assert names == [
        "u1",
        "u1~copy1~room-hall1~noise-street-at3.4dB~volume-1.2dB",
        "u1~copy2~room-my_room_2_~noise-cafe-at15.7dB~volume-1.8dB",
        "u1~speed0.9",
        "u1~speed0.9~copy1~room-hall1~noise-street-at7.4dB~volume-3.6dB",
        "u1~speed0.9~copy2~room-my_room_2_~noise-cafe-at6.2dB~volume+2.4dB",
    ]


def test_sound_share_makes_as_many_wordless_copies_as_copies_with_sound():
    config = Config(sound_share=0.2)
    of_all = [copies.list_variants(f"u{i}", config, copies.Sources()) for i in range(2000)]
    assert all(plain == Variant() and len(rest) <= 1 for plain, *rest in of_all) and not config.is_plain
    names = [each.name("u") for _, *rest in of_all for each in rest]
    wordless = [name for name in names if copy_ids.WORDLESS in name]
    noisy = [re.fullmatch(r"u~sound-(.*)-at(.*)dB", name) for name in names if name not in wordless]
    assert 350 < len(wordless) < 450 and 350 < len(noisy) < 450
    assert {*wordless} == {f"u~wordless-{each}" for each in ("noise", "tones", "music", "babble")}
    assert {each[1] for each in noisy} == {"noise", "tones", "music"}  # babble is never added to words
    assert 0.3 < sum("babble" in each for each in wordless) / len(wordless) < 0.5
    levels = sorted(float(each[2]) for each in noisy)
    assert 0 <= levels[0] < 1 and 19 < levels[-1] <= 20 and 9 < levels[len(levels) // 2] < 11
    assert len({each.sound_seed for _, *rest in of_all for each in rest}) == len(names)
    assert names[:3] == ["u~wordless-babble", "u~wordless-babble", "u~wordless-noise"]


@pytest.mark.parametrize("is_wordless", [False, True])
def test_a_sound_is_added_to_the_words_or_replaces_them(is_wordless):
    waveform = small_augmentation.noise(8000)
    variant = Variant(snr_db=6.0, sound="music", sound_seed=3, is_wordless=is_wordless)
    sound = sounds.make("music", 3, waveform, small_corpora.SAMPLE_RATE)
    made = effects.apply(waveform, small_corpora.SAMPLE_RATE, variant)
    if is_wordless:
        np.testing.assert_array_equal(made, sound)
    else:
        added = made - waveform
        wanted = sounds.make("music", 3, waveform, small_corpora.SAMPLE_RATE, len(waveform))
        np.testing.assert_allclose(np.corrcoef(added, wanted)[0, 1], 1, atol=1e-4)
        ratio = np.sum(waveform.astype(np.float64) ** 2) / np.sum(added.astype(np.float64) ** 2)
        assert 10 * np.log10(ratio) == pytest.approx(6.0, abs=0.01)


def test_sampled_values_fill_their_ranges(folders):
    found = small_augmentation.find_sources(**folders)
    config = make_config(folders, noise_snr_db=(5.0, 10.0), speed_perturb_factors=(1.0,), augmented_copies=1)
    drawn = [copies.list_variants(f"u{i}", config, found)[1] for i in range(400)]
    for values, low, high in (
        ([each.snr_db for each in drawn], 5, 10),
        ([each.volume_db for each in drawn], -6, 6),
    ):
        assert low <= min(values) < low + 0.2 and high - 0.2 < max(values) <= high
        assert np.mean(values) == pytest.approx((low + high) / 2, abs=0.4)
    assert {os.path.basename(each.room) for each in drawn} == {"hall1.wav", "my room (2).wav"}
    assert sum(each.noise.endswith("cafe.wav") for each in drawn) == pytest.approx(200, abs=40)
    assert all(0 <= each.noise_offset_seconds <= 0.9 * each.noise_seconds for each in drawn)
    assert len({each.noise_offset_seconds for each in drawn}) > 250


def test_each_copy_has_one_codec_with_a_setting_in_its_range():
    config = Config(codecs=("mp3", "opus", "telephone"), augmented_copies=3)
    names = [each.name("u1") for each in copies.list_variants("u1", config, copies.Sources())]
    assert names == ["u1", "u1~copy1~mp3-19kbps", "u1~copy2~mp3-45kbps", "u1~copy3~opus-14kbps"]
    drawn = [copies.list_variants(f"u{i}", config, copies.Sources())[1] for i in range(600)]
    for codec, low, high in (("mp3", 16, 64), ("opus", 8, 32), ("telephone", 8000, 8000)):
        settings = [each.codec_setting for each in drawn if each.codec == codec]
        assert len(settings) == pytest.approx(200, abs=40)
        assert low <= min(settings) <= 1.07 * low and 0.93 * high <= max(settings) <= high


def test_codecs_do_not_change_other_sampled_values(folders):
    found = small_augmentation.find_sources(**folders)
    with_codecs = copies.list_variants("u1", make_config(folders, codecs=("mp3", "lowpass")), found)
    assert [bool(each.codec) for each in with_codecs] == [False, True, True, False, True, True]
    without = [dataclasses.replace(each, codec=None, codec_setting=0) for each in with_codecs]
    assert without == copies.list_variants("u1", make_config(folders), found)


def test_names_are_unique_even_if_copies_are_the_same(folders):
    only = {"noise_dir": folders["noise_dir"]}
    config = Config(**only, noise_snr_db=(10.0, 10.0), augmented_copies=30, speed_perturb_factors=(0.9, 1.0))
    found = small_augmentation.find_sources(noise_dir=folders["noise_dir"])
    names = [each.name("u1") for each in copies.list_variants("u1", config, found)]
    assert len(set(names)) == len(names) == 62
    assert not [name for name in names if any(letter.isspace() or letter == "/" for letter in name)]


def test_sampled_values_depend_on_seed_and_utterance_but_not_on_other_directories(folders):
    found = small_augmentation.find_sources(**folders)
    drawn = copies.list_variants("u1", make_config(folders), found)
    assert drawn == copies.list_variants("u1", make_config(folders), found)
    assert drawn != copies.list_variants("u1", make_config(folders, augmentation_seed=2), found)
    assert drawn != copies.list_variants("u2", make_config(folders), found)
    only = {"rir_dir": folders["rir_dir"]}
    alone = copies.list_variants("u1", make_config(only), small_augmentation.find_sources(**only))
    assert [each.room for each in alone] == [each.room for each in drawn]
    assert [each.volume_db for each in alone] == [each.volume_db for each in drawn]
    assert not any(each.noise for each in alone)


def test_variants_survive_a_json_round_trip(folders):
    found = small_augmentation.find_sources(**folders)
    for variant in copies.list_variants("u1", make_config(folders), found):
        assert Variant(**json.loads(json.dumps(dataclasses.asdict(variant)))) == variant


PROGRAM = """
import dataclasses, hashlib, json, sys
from tfrecord_builder.audio.augmentation import augmentation_config, copies, effects
import numpy as np
folders = dict(rir_dir=sys.argv[1], noise_dir=sys.argv[2])
factors = (1.1, 1.0)
config = augmentation_config.AugmentationConfig(factors, augmented_copies=2, **folders)
found = copies.find_sources(config)
speech = np.sin(np.arange(20000) / 10).astype(np.float32)
for variant in copies.list_variants("u1", config, found):
    samples = effects.apply(speech, 16000, variant)
    print(variant.name("u1"), len(samples), hashlib.sha256(samples.tobytes()).hexdigest())
"""


def test_samples_do_not_depend_on_the_hash_seed_of_the_process(folders, run_twice):
    said = run_twice(PROGRAM, folders["rir_dir"], folders["noise_dir"])
    assert len(set(said.splitlines())) == 6


def test_an_utterance_id_may_contain_the_separator():
    (variant,) = copies.list_variants("a~b", Config(sound_share=0.01), copies.Sources())
    assert variant.name("a~b") == "a~b"


def test_an_utterance_id_that_looks_like_the_id_of_a_copy_is_refused():
    with pytest.raises(errors.UserError) as caught:
        copies.list_variants("u1~speed0.9", Config(speed_perturb_factors=(1.0, 0.9)), copies.Sources())
    assert str(caught.value) == (
        "utterance id u1~speed0.9 contains '~speed0', which is reserved for augmented copies; rename "
        "the utterance or build with --speed_perturb_factors=1 --augmented_copies=0 --sound_share=0."
    )


def test_sources_are_sorted_by_name_and_have_duration_and_signature(folders):
    found = small_augmentation.find_sources(**folders)
    assert [each.name for each in found.rirs] == ["far/my room (2).wav", "hall1.wav"]
    assert [(each.name, each.seconds) for each in found.noises] == [("cafe.wav", 3.0), ("street.flac", 0.5)]
    path = os.path.join(folders["noise_dir"], "cafe.wav")
    assert found.noises[0].path == path
    status = os.stat(path)
    assert found.noises[0].signature == (status.st_size, status.st_mtime_ns)
    assert small_augmentation.find_sources() == copies.Sources()


def test_description_depends_on_names_and_contents(folders):
    described = [small_augmentation.find_sources(**folders).describe(Config())]
    path = os.path.join(folders["noise_dir"], "cafe.wav")
    small_corpora.write_audio(path, small_augmentation.noise(2 * small_corpora.SAMPLE_RATE))
    described.append(small_augmentation.find_sources(**folders).describe(Config()))
    os.rename(path, os.path.join(folders["noise_dir"], "bar.wav"))
    described.append(small_augmentation.find_sources(**folders).describe(Config()))
    texts = [json.dumps(each) for each in described]
    assert len(set(texts)) == 3
    assert json.loads(texts[0])[1][0][1][0] == "hall1.wav"


def test_paths_from_a_relative_directory_are_absolute(folders, monkeypatch):
    monkeypatch.chdir(os.path.dirname(folders["noise_dir"]))
    (cafe, _) = small_augmentation.find_sources(noise_dir="noises/").noises
    assert (cafe.path, cafe.name) == (os.path.join(folders["noise_dir"], "cafe.wav"), "cafe.wav")


def test_unusable_directories_are_refused(tmp_path):
    def check(message, flag="noise_dir"):
        with pytest.raises(errors.UserError, match=f"^{re.escape(f'--{flag}: {message}')}"):
            small_augmentation.find_sources(**{flag: str(tmp_path / "in")})

    path = tmp_path / "in" / "a.WAV"
    check(f"{path.parent} is not a directory; choose a directory of audio files.", "rir_dir")
    path.parent.mkdir()
    check(f"{path.parent} contains no audio files (.wav, .flac, .ogg, .mp3); choose another directory.")
    path.write_text("no audio")
    check(f"{path} cannot be read (Format not recognised); copy the file again or remove it.")
    small_corpora.write_audio(path, np.zeros(0, np.float32))
    check(f"{path} contains no audio; remove the file from the directory.")
    small_corpora.write_audio(path, small_augmentation.noise(11 * small_corpora.SAMPLE_RATE))
    problem = "contains 11 s of audio, expected more than 0 and at most 10 s"
    check(f"{path} {problem}; remove the file from the directory.", "rir_dir")
    path.unlink()
    path.symlink_to("nowhere")
    check(f"{path} cannot be read (No such file or directory)", "rir_dir")
