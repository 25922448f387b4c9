import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import paths
import pytest
import small_corpora
import soundfile
from absl import flags

from tfrecord_builder import audio, config_flags, errors, manifest
from tfrecord_builder.augmentation import augmentation_config, effects
from tfrecord_builder.augmentation import copies as augmentation_plan
from tfrecord_builder.augmentation import sources as augmentation_sources
from tfrecord_builder.building import listing

RATE = 16000
Config = augmentation_config.AugmentationConfig
Variant = augmentation_plan.Variant


def noise_like(num_samples, seed=0, level=0.1):
    return (level * np.random.RandomState(seed).standard_normal(num_samples)).astype(np.float32)


def peak_hz(waveform):
    """The loudest frequency, to a hundredth of a Hz."""
    spectrum = np.abs(np.fft.rfft(waveform * np.hanning(len(waveform)), 100 * RATE))
    return np.argmax(spectrum) / 100


def snr_db(speech, noisy):
    noise = np.float64(noisy) - speech
    return 10 * np.log10(np.mean(np.square(speech, dtype=np.float64)) / np.mean(np.square(noise)))


@pytest.fixture
def folders(tmp_path):
    """Two rooms and two noises, and what is neither."""
    response = np.zeros(800, np.float32)
    response[[100, 400]] = [0.8, 0.3]
    for name in ("hall1.wav", os.path.join("far", "my room (2).wav")):
        small_corpora.write_audio(tmp_path / "rooms" / name, response)
    small_corpora.write_audio(tmp_path / "noises" / "cafe.wav", noise_like(3 * RATE))
    small_corpora.write_audio(tmp_path / "noises" / "street.flac", noise_like(RATE // 2, seed=1))
    small_corpora.write_text(tmp_path / "noises" / "README.txt", "from somewhere")
    return {"rir_dir": str(tmp_path / "rooms"), "noise_dir": str(tmp_path / "noises")}


def make_config(folders, **changes):
    return Config(
        **{**folders, "speed_perturb_factors": (0.9, 1.0), "augmented_copies": 2, "volume_db": 6.0, **changes}
    )


def find_sources(**folders):
    copies = 1 if any(folders.values()) else 0
    return augmentation_sources.find_sources(Config(**folders, augmented_copies=copies))


# --- what is drawn


def test_defaults_take_every_utterance_as_it_is():
    assert Config().is_plain
    (variant,) = augmentation_plan.list_variants("u1", Config(), augmentation_sources.Sources())
    assert variant == Variant()
    assert variant.name("u1") == "u1"
    waveform = noise_like(100)
    assert effects.apply(waveform, RATE, variant) is waveform


def test_a_copy_for_each_speed_the_plain_one_first():
    config = Config(speed_perturb_factors=(0.9, 1.0, 1.1))
    variants = augmentation_plan.list_variants("u1", config, augmentation_sources.Sources())
    assert [each.name("u1") for each in variants] == ["u1", "u1~speed0.9", "u1~speed1.1"]
    assert not config.is_plain
    without = Config(speed_perturb_factors=(0.9, 1.1))
    variants = augmentation_plan.list_variants("u1", without, augmentation_sources.Sources())
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
    ],
)
def test_names(variant, name):
    assert variant.name("u1") == name


@pytest.mark.parametrize(
    ("split", "changes", "variants"),
    [
        ("train", {}, [("u1", None), ("u1~speed0.8", Variant(0.8))]),
        ("dev", {}, [("u1", None)]),
        (
            "train",
            {"speed": 1.25, "volume_db": -3.0},
            [("u1", Variant(1.25, volume_db=-3.0)), ("u1~speed0.8", Variant(1.0, volume_db=-3.0))],
        ),
        ("dev", {"speed": 1.25}, [("u1", Variant(1.25))]),
        ("train", {"speed": 1.25}, [("u1", Variant(1.25)), ("u1~speed0.8", None)]),
    ],
)
def test_the_corpus_own_speed_and_volume_come_on_top(split, changes, variants):
    utterance = manifest.Utterance("u1", "/c/u1.wav", "", "好", "", split, **changes)
    found = listing.list_copies(
        utterance, Config(speed_perturb_factors=(1.0, 0.8)), augmentation_sources.Sources()
    )
    assert list(found) == variants


def test_draws_are_these(folders):
    """Literals: another version of this program must not draw otherwise under the same seed."""
    sources = find_sources(**folders)
    names = [each.name("u1") for each in augmentation_plan.list_variants("u1", make_config(folders), sources)]
    assert names == [
        "u1",
        "u1~copy1~room-hall1~noise-street-at3.4dB~volume-1.2dB",
        "u1~copy2~room-my_room_2_~noise-cafe-at15.7dB~volume-1.8dB",
        "u1~speed0.9",
        "u1~speed0.9~copy1~room-hall1~noise-street-at7.4dB~volume-3.6dB",
        "u1~speed0.9~copy2~room-my_room_2_~noise-cafe-at6.2dB~volume+2.4dB",
    ]


def test_draws_lie_in_their_ranges_and_fill_them(folders):
    sources = find_sources(**folders)
    config = make_config(folders, noise_snr_db=(5.0, 10.0), speed_perturb_factors=(1.0,), augmented_copies=1)
    drawn = [augmentation_plan.list_variants(f"u{i}", config, sources)[1] for i in range(400)]
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


def test_names_are_unique_even_where_nothing_is_left_to_draw(folders):
    only = {"noise_dir": folders["noise_dir"]}
    config = Config(**only, noise_snr_db=(10.0, 10.0), augmented_copies=30, speed_perturb_factors=(0.9, 1.0))
    sources = find_sources(noise_dir=folders["noise_dir"])
    names = [each.name("u1") for each in augmentation_plan.list_variants("u1", config, sources)]
    assert len(set(names)) == len(names) == 62
    assert not [name for name in names if any(letter.isspace() or letter == "/" for letter in name)]


def test_a_draw_depends_on_the_seed_and_the_utterance_and_on_no_other_folder(folders):
    sources = find_sources(**folders)
    drawn = augmentation_plan.list_variants("u1", make_config(folders), sources)
    assert drawn == augmentation_plan.list_variants("u1", make_config(folders), sources)
    assert drawn != augmentation_plan.list_variants("u1", make_config(folders, augmentation_seed=2), sources)
    assert drawn != augmentation_plan.list_variants("u2", make_config(folders), sources)
    alone = augmentation_plan.list_variants(
        "u1",
        make_config({"rir_dir": folders["rir_dir"]}),
        find_sources(rir_dir=folders["rir_dir"]),
    )
    assert [each.room for each in alone] == [each.room for each in drawn]
    assert [each.volume_db for each in alone] == [each.volume_db for each in drawn]
    assert not any(each.noise for each in alone)


def test_variants_go_through_json(folders):
    sources = find_sources(**folders)
    for variant in augmentation_plan.list_variants("u1", make_config(folders), sources):
        assert Variant(**json.loads(json.dumps(dataclasses.asdict(variant)))) == variant


PROGRAM = """
import dataclasses, hashlib, json, sys
from tfrecord_builder.augmentation import augmentation_config, copies, effects, sources
import numpy as np
folders = dict(rir_dir=sys.argv[1], noise_dir=sys.argv[2])
factors = (1.1, 1.0)
config = augmentation_config.AugmentationConfig(factors, augmented_copies=2, **folders)
found = sources.find_sources(config)
speech = np.sin(np.arange(20000) / 10).astype(np.float32)
for variant in copies.list_variants("u1", config, found):
    samples = effects.apply(speech, 16000, variant)
    print(variant.name("u1"), len(samples), hashlib.sha256(samples.tobytes()).hexdigest())
"""


def test_same_samples_in_processes_of_different_hash_seeds(folders):
    said = []
    for seed in ("1", "2"):
        command = [sys.executable, "-c", PROGRAM, folders["rir_dir"], folders["noise_dir"]]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        root = str(paths.ROOT)
        said.append(
            subprocess.run(command, env=environment, cwd=root, stdout=subprocess.PIPE, check=True).stdout
        )
    assert said[0] == said[1]
    assert len(set(said[0].splitlines())) == 6


def test_flags_of_the_issue():
    values = flags.FlagValues()
    config_flags.define(Config, values)
    values(
        [
            "program",
            "--speed_perturb_factors=0.9,1.0,1.1",
            "--noise_snr_db=5,15",
            "--augmented_copies=1",
            "--noise_dir=N",
        ]
    )
    config = config_flags.from_flags(Config, values)
    assert (config.speed_perturb_factors, config.noise_snr_db) == ((0.9, 1.0, 1.1), (5.0, 15.0))


# --- where it is drawn from


def test_sources_are_sorted_by_name_with_length_and_stamp(folders):
    sources = find_sources(**folders)
    assert [each.name for each in sources.rirs] == ["far/my room (2).wav", "hall1.wav"]
    assert [(each.name, each.seconds) for each in sources.noises] == [("cafe.wav", 3.0), ("street.flac", 0.5)]
    path = os.path.join(folders["noise_dir"], "cafe.wav")
    assert sources.noises[0].path == path
    status = os.stat(path)
    assert sources.noises[0].signature == (status.st_size, status.st_mtime_ns)
    assert find_sources() == augmentation_sources.Sources()


def test_description_changes_with_names_and_contents(folders):
    described = [find_sources(**folders).describe()]
    path = os.path.join(folders["noise_dir"], "cafe.wav")
    small_corpora.write_audio(path, noise_like(2 * RATE))
    described.append(find_sources(**folders).describe())
    os.rename(path, os.path.join(folders["noise_dir"], "bar.wav"))
    described.append(find_sources(**folders).describe())
    texts = [json.dumps(each) for each in described]
    assert len(set(texts)) == 3
    assert json.loads(texts[0])[0][1][0] == "hall1.wav"


def test_a_relative_folder_gives_absolute_paths(folders, monkeypatch):
    monkeypatch.chdir(os.path.dirname(folders["noise_dir"]))
    (cafe, _) = find_sources(noise_dir="noises/").noises
    assert (cafe.path, cafe.name) == (os.path.join(folders["noise_dir"], "cafe.wav"), "cafe.wav")


def test_folders_that_cannot_be_used_are_refused(folders, tmp_path):
    def refused(rir_dir="", noise_dir=""):
        with pytest.raises(errors.UserError) as caught:
            find_sources(rir_dir=rir_dir, noise_dir=noise_dir)
        return str(caught.value)

    missing, empty = str(tmp_path / "missing"), tmp_path / "empty"
    assert refused(missing) == (f"--rir_dir: {missing} is not a directory; choose one of audio files.")
    empty.mkdir()
    assert refused(noise_dir=str(empty)) == (
        f"--noise_dir: {empty} has no audio, expected .wav, .flac, .ogg, .mp3; choose another directory."
    )
    path = small_corpora.write_text(empty / "a.WAV", "no audio")
    assert refused(noise_dir=str(empty)) == (
        f"--noise_dir: {path} cannot be read (Format not recognised); copy it again or remove it."
    )
    small_corpora.write_audio(path, np.zeros(0, np.float32))
    assert refused(noise_dir=str(empty)) == (
        f"--noise_dir: {path} has 0 s of audio, expected a known duration; remove it from the directory."
    )
    small_corpora.write_audio(path, noise_like(11 * RATE))
    assert refused(str(empty)) == (
        f"--rir_dir: {path} has 11 s of audio, expected at most 10 s; remove it from the directory."
    )
    os.remove(path)
    os.symlink(empty / "nowhere", path)
    assert f"{path} cannot be read (No such file or directory)" in refused(str(empty))


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"speed_perturb_factors": (0.4,)},
            "flag --speed_perturb_factors=0.4: expected at least 0.5 and at most 2",
        ),
        (
            {"speed_perturb_factors": ()},
            "--speed_perturb_factors=: a factor is missing; pass for example",
        ),
        (
            {"speed_perturb_factors": (1.0, 0.9, 1.0)},
            "--speed_perturb_factors=1,0.9,1: a factor is duplicate",
        ),
        (
            {"volume_db": 6.0, "noise_dir": "N"},
            "--noise_dir, --volume_db: --augmented_copies is 0, expected at least 1; "
            "pass --augmented_copies=1.",
        ),
        (
            {"augmented_copies": 2},
            "--augmented_copies=2: all copies would be the same; pass --rir_dir, --noise_dir or --volume_db.",
        ),
        ({"augmented_copies": -1}, "flag --augmented_copies=-1: expected at least 0"),
        ({"volume_db": -6.0}, "flag --volume_db=-6.0: expected at least 0 and at most 60"),
        (
            {"noise_dir": "N", "augmented_copies": 1, "noise_snr_db": (20.0, 5.0)},
            "--noise_snr_db=20,5: expected lowest,highest; pass for example 0,20.",
        ),
        (
            {"noise_dir": "N", "augmented_copies": 1, "noise_snr_db": (5.0,)},
            "--noise_snr_db=5: expected lowest,highest",
        ),
        (
            {"noise_snr_db": (5.0, 10.0)},
            "--noise_snr_db=5,10: --noise_dir is missing; pass it",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(errors.UserError) as caught:
        Config(**settings)
    assert message in str(caught.value)


def test_an_id_that_could_be_a_copys_is_refused():
    with pytest.raises(errors.UserError) as caught:
        augmentation_plan.list_variants(
            "u1~speed0.9", Config(speed_perturb_factors=(1.0, 0.9)), augmentation_sources.Sources()
        )
    assert str(caught.value) == (
        "utterance u1~speed0.9: its id contains '~', which marks the ids of augmented "
        "copies; rename the utterance or leave augmentation out."
    )
    assert augmentation_plan.list_variants("a~b", Config(), augmentation_sources.Sources()) == [Variant()]


# --- what is done


@pytest.mark.parametrize("speed, num_samples, hz", [(0.9, 17778, 396), (1.1, 14545, 484), (2.0, 8000, 880)])
def test_speed_changes_length_and_pitch(speed, num_samples, hz):
    slower = effects.apply(small_corpora.tone(1.0, 440.0), RATE, Variant(speed))
    assert slower.dtype == np.float32 and slower.shape == (num_samples,)
    assert peak_hz(slower) == pytest.approx(hz, abs=0.02)
    assert np.abs(slower[2000:-2000]).max() == pytest.approx(0.3, abs=0.001)


def test_a_room_of_one_sample_changes_nothing():
    speech = noise_like(5000)
    for response in ([1.0], [-0.25], [0.0] * 700 + [0.5] + [0.0] * 50):
        heard = effects.reverberate(speech, np.float32(response))
        assert heard.dtype == np.float32
        np.testing.assert_allclose(heard, np.sign(sum(response)) * speech, atol=1e-6)


def test_a_room_is_the_convolution_from_the_direct_path_on():
    speech, response = noise_like(3000), noise_like(500, seed=1)
    response[120] = 2.0
    expected = np.convolve(speech.astype(np.float64), response)[120:3120]
    expected *= np.linalg.norm(speech) / np.linalg.norm(expected)
    np.testing.assert_allclose(effects.reverberate(speech, response), expected, atol=1e-6)


@pytest.mark.parametrize("num_samples", [1, 2, 400, 12345])
def test_a_room_keeps_length_and_energy(num_samples):
    speech = noise_like(num_samples)
    response = noise_like(8000, seed=1) * np.exp(-np.arange(8000) / 1500).astype(np.float32)
    response[40] = 0.9
    heard = effects.reverberate(speech, response)
    assert heard.shape == speech.shape
    assert np.sum(heard**2) == pytest.approx(np.sum(speech**2), rel=1e-5)


def test_a_direct_path_may_be_negative():
    speech = noise_like(500)
    heard = effects.reverberate(speech, np.float32([0.0, -1.0, 0.3]))
    expected = np.convolve(speech, [-1.0, 0.3])[:500]
    np.testing.assert_allclose(heard / heard.std(), expected / expected.std(), atol=1e-5)


def test_silence_stays_silent_in_a_room_and_in_noise():
    assert not effects.reverberate(np.zeros(100, np.float32), noise_like(10)).any()
    assert not effects.add_noise(np.zeros(100, np.float32), noise_like(100), 10.0).any()


@pytest.mark.parametrize("wanted", [-5.0, 0.0, 12.3, 40.0])
def test_noise_has_the_level_that_was_asked_for(folders, wanted):
    speech = small_corpora.tone(2.0)
    cafe = os.path.join(folders["noise_dir"], "cafe.wav")
    noisy = effects.apply(speech, RATE, Variant(1.0, 1, None, cafe, 3.0, 0.25, wanted))
    assert noisy.dtype == np.float32
    assert snr_db(speech, noisy) == pytest.approx(wanted, abs=0.1)
    added = (noisy - speech) / np.std(noisy - speech)
    expected = audio.read_audio(cafe, RATE)[4000:36000]
    np.testing.assert_allclose(added, expected / np.std(expected), atol=0.02)


def test_short_noise_goes_round(folders):
    street = os.path.join(folders["noise_dir"], "street.flac")
    speech = small_corpora.tone(2.0)
    added = effects.apply(speech, RATE, Variant(1.0, 1, None, street, 0.5, 0.125, 0.0)) - speech
    assert np.std(added[:6000]) == pytest.approx(np.std(speech), rel=0.05)
    np.testing.assert_allclose(added[6000:14000], added[14000:22000], atol=1e-6)
    np.testing.assert_allclose(added[:6000], added[8000:14000], atol=1e-6)
    np.testing.assert_allclose(added[30000:], added[22000:24000], atol=1e-6)


def test_noise_of_another_rate_is_resampled(folders):
    path = os.path.join(folders["noise_dir"], "hum.wav")
    small_corpora.write_audio(path, small_corpora.tone(3.0, 700.0, sample_rate=48000), sample_rate=48000)
    speech = noise_like(RATE, level=0.001)
    noisy = effects.apply(speech, RATE, Variant(1.0, 1, None, path, 3.0, 1.0, -20.0))
    assert peak_hz(noisy) == pytest.approx(700, abs=0.05)


def test_silent_noise_adds_nothing(folders):
    path = small_corpora.write_audio(os.path.join(folders["noise_dir"], "mute.wav"), np.zeros(RATE))
    speech = small_corpora.tone(1.0)
    noisy = effects.apply(speech, RATE, Variant(1.0, 1, None, path, 1.0, 0.0, 5.0))
    np.testing.assert_array_equal(noisy, speech)


def test_volume_is_a_factor_and_clips_nothing():
    speech = np.float32([0.5, -0.25, 1.0])
    louder = effects.apply(speech, RATE, Variant(1.0, 1, volume_db=20.0))
    assert louder.dtype == np.float32
    np.testing.assert_allclose(louder, [5.0, -2.5, 10.0], rtol=1e-6)


def test_order_is_speed_room_noise_volume(folders):
    """Noise is added at its level to what is heard of the slowed speech in the room, and all gets louder."""
    rooms, noises = (folders[name] for name in ("rir_dir", "noise_dir"))
    hall, cafe = os.path.join(rooms, "hall1.wav"), os.path.join(noises, "cafe.wav")
    speech = small_corpora.tone(1.0)
    heard = effects.apply(speech, RATE, Variant(0.9, 1, hall))
    noisy = effects.apply(speech, RATE, Variant(0.9, 1, hall, cafe, 3.0, 0.0, 10.0, 6.0)) / 10 ** (6 / 20)
    expected = effects.reverberate(effects.change_speed(speech, 0.9), audio.read_audio(hall, RATE))
    np.testing.assert_array_equal(heard, expected)
    assert snr_db(heard, noisy) == pytest.approx(10.0, abs=0.01)


def test_the_first_channel_of_a_room_is_taken(folders):
    both = np.zeros([300, 2], np.float32)
    both[50, 0], both[90, 1] = 0.5, 0.9
    path = small_corpora.write_audio(os.path.join(folders["rir_dir"], "two.wav"), both)
    speech = noise_like(1000)
    np.testing.assert_allclose(effects.apply(speech, RATE, Variant(room=path)), speech, atol=1e-6)


def test_rooms_and_noises_that_have_changed_are_named(folders):
    path = small_corpora.write_audio(os.path.join(folders["rir_dir"], "mute.wav"), np.zeros(RATE))
    with pytest.raises(errors.UserError) as caught:
        effects.apply(small_corpora.tone(1.0), RATE, Variant(room=path))
    assert str(caught.value) == f"{path}: the room impulse response is silent; remove it from the directory."
    path = os.path.join(folders["noise_dir"], "nan.wav")
    soundfile.write(path, np.float32([np.nan] * RATE), RATE, subtype="FLOAT")
    with pytest.raises(errors.UserError) as caught:
        effects.apply(small_corpora.tone(0.5), RATE, Variant(noise=path, noise_seconds=1.0))
    assert str(caught.value) == (f"{path}: samples are NaN or Inf; remove it from the directory.")
    os.remove(path)
    with pytest.raises(errors.UserError, match="nan.wav"):
        effects.apply(small_corpora.tone(0.5), RATE, Variant(noise=path, noise_seconds=1.0))
