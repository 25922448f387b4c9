import pytest
from absl import flags

from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import augmentation_config
from tfrecord_builder.program import config_flags


def test_flags_become_a_config():
    values = flags.FlagValues()
    config_flags.define(augmentation_config.AugmentationConfig, values)
    values(
        [
            "program",
            "--speed_perturb_factors=0.9,1.0,1.1",
            "--noise_snr_db=5,15",
            "--augmented_copies=1",
            "--noise_dir=N",
        ]
    )
    config = config_flags.from_flags(augmentation_config.AugmentationConfig, values)
    assert (config.speed_perturb_factors, config.noise_snr_db) == ((0.9, 1.0, 1.1), (5.0, 15.0))


@pytest.mark.parametrize(
    "settings, message",
    [
        (
            {"speed_perturb_factors": (0.4,)},
            "flag --speed_perturb_factors=0.4: expected at least 0.5 and at most 2",
        ),
        (
            {"speed_perturb_factors": ()},
            "--speed_perturb_factors= contains no factor; pass, for example,",
        ),
        ({"speed_perturb_factors": (1.0, 0.9, 1.0)}, "--speed_perturb_factors=1,0.9,1 contains a duplicate"),
        (
            {"volume_db": 6.0, "noise_dir": "N"},
            "--noise_dir, --volume_db cannot have any effect, because --augmented_copies is 0; "
            "pass --augmented_copies=1.",
        ),
        (
            {"augmented_copies": 2},
            "--augmented_copies=2: all copies would be the same; pass --rir_dir, --noise_dir, "
            "--volume_db or --codecs.",
        ),
        (
            {"codecs": ("mp3",)},
            "--codecs cannot have any effect, because --augmented_copies is 0; pass --augmented_copies=1.",
        ),
        (
            {"codecs": ("mp3", "amr"), "augmented_copies": 1},
            "flag --codecs=mp3,amr: expected one of mp3, opus, vorbis, telephone, lowpass",
        ),
        ({"augmented_copies": -1}, "flag --augmented_copies=-1: expected at least 0"),
        ({"volume_db": -6.0}, "flag --volume_db=-6.0: expected at least 0 and at most 60"),
        (
            {"noise_dir": "N", "augmented_copies": 1, "noise_snr_db": (20.0, 5.0)},
            "--noise_snr_db is 20,5, expected the lowest and the highest ratio, for example 0,20.",
        ),
        (
            {"noise_dir": "N", "augmented_copies": 1, "noise_snr_db": (5.0,)},
            "--noise_snr_db is 5, expected the lowest and the highest ratio",
        ),
        ({"noise_snr_db": (5.0, 10.0)}, "--noise_snr_db=5,10 has no effect without noise; pass --noise_dir"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(errors.UserError) as caught:
        augmentation_config.AugmentationConfig(**settings)
    assert message in str(caught.value)
