import re

import pytest
from absl import flags

from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import augmentation_config
from tfrecord_builder.program import config_flags


def test_flags_become_a_config():
    values = flags.FlagValues()
    config_flags.define(augmentation_config.AugmentationConfig, values)
    words = "--speed_perturb_factors=0.9,1.0,1.1 --noise_snr_db=5,15 --augmented_copies=1 --noise_dir=N"
    values(["program", *words.split()])
    config = config_flags.from_flags(augmentation_config.AugmentationConfig, values)
    assert (config.speed_perturb_factors, config.noise_snr_db) == ((0.9, 1.0, 1.1), (5.0, 15.0))


NOISE = {"noise_dir": "N", "augmented_copies": 1}
UNUSED = "cannot have any effect, because --augmented_copies is 0; pass --augmented_copies=1."
UNCHANGED = "all copies would be the same; pass --rir_dir, --noise_dir, --volume_db or --codecs."
SNR = "expected the lowest and the highest ratio, for example 0,20."


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"speed_perturb_factors": (0.4,)}, "_factors=0.4: expected at least 0.5 and at most 2"),
        ({"speed_perturb_factors": ()}, "--speed_perturb_factors= contains no factor; pass, for example,"),
        ({"speed_perturb_factors": (1.0, 0.9, 1.0)}, "--speed_perturb_factors=1,0.9,1 contains a duplicate"),
        ({"volume_db": 6.0, "noise_dir": "N"}, f"--noise_dir, --volume_db {UNUSED}"),
        ({"augmented_copies": 2}, f"--augmented_copies=2: {UNCHANGED}"),
        ({"codecs": ("mp3",)}, f"--codecs {UNUSED}"),
        ({"codecs": ("amr",)}, "--codecs=amr: expected one of mp3, opus, vorbis, telephone, lowpass"),
        ({"augmented_copies": -1}, "flag --augmented_copies=-1: expected at least 0"),
        ({"volume_db": -6.0}, "flag --volume_db=-6.0: expected at least 0 and at most 60"),
        ({**NOISE, "noise_snr_db": (20.0, 5.0)}, f"--noise_snr_db is 20,5, {SNR}"),
        ({**NOISE, "noise_snr_db": (5.0,)}, f"--noise_snr_db is 5, {SNR}"),
        ({"noise_snr_db": (5.0, 10.0)}, "--noise_snr_db=5,10 has no effect without noise; pass --noise_dir"),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(errors.UserError, match=re.escape(message)):
        augmentation_config.AugmentationConfig(**settings)
