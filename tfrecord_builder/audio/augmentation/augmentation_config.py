"""Settings for data augmentation."""

from __future__ import annotations

import dataclasses

from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import codecs
from tfrecord_builder.program import config_flags

_SNR_DB = (0.0, 20.0)  # the range in Kaldi's recipes, which pass 20:10:15:5:0 to reverberate_data_dir.py


@dataclasses.dataclass(frozen=True)
class AugmentationConfig(config_flags.Checked):
    """Settings for augmented copies of the train utterances; by default, there are no copies."""

    speed_perturb_factors: tuple[float, ...] = config_flags.setting(
        (1.0,),
        "speed factors, usually 0.9,1.0,1.1; each train utterance is written once per factor, and the "
        "original is left out unless 1.0 is one of the factors",
        minimum=0.5,
        maximum=2,
    )
    augmented_copies: int = config_flags.setting(
        0,
        "number of additional copies of each train utterance at each speed; each copy gets a random room "
        "impulse response (--rir_dir), noise (--noise_dir), gain (--volume_db) and codec (--codecs), if the "
        "respective flag is set",
        minimum=0,
    )
    rir_dir: str = config_flags.setting(
        "", "directory of room impulse responses (RIRs), searched recursively"
    )
    noise_dir: str = config_flags.setting("", "directory of noise recordings, searched recursively")
    noise_snr_db: tuple[float, ...] = config_flags.setting(
        _SNR_DB,
        "lowest and highest signal-to-noise ratio in dB for --noise_dir and --sound_share",
        minimum=-50,
        maximum=100,
    )
    volume_db: float = config_flags.setting(
        0.0, "maximum gain or attenuation of copies, in dB", minimum=0, maximum=60
    )
    codecs: tuple[str, ...] = config_flags.setting(
        (),
        "transmission channels, usually mp3,opus,telephone,lowpass; each additional copy is sent through one "
        "channel, chosen at random, with a random bit rate or cutoff frequency",
        choices=codecs.CHANNELS,
    )
    sound_share: float = config_flags.setting(
        0.0,
        "fraction of the train utterances that get a copy without words (noise, tones, music or many voices "
        "at once), which teaches the model to output nothing; the same number of other utterances get a copy "
        "with added noise, tones or music",
        minimum=0,
        maximum=0.5,
    )
    augmentation_seed: int = config_flags.setting(1, "random seed for the augmented copies")

    def __post_init__(self):
        super().__post_init__()
        factors = [f"{factor:g}" for factor in self.speed_perturb_factors]
        if not factors or len(set(factors)) < len(factors):
            problem = "contains a duplicate" if factors else "contains no factor"
            raise errors.UserError(
                f"--speed_perturb_factors={','.join(factors)} {problem}; "
                "pass, for example, --speed_perturb_factors=0.9,1.0,1.1."
            )
        self._check_snr()
        flags = ("rir_dir", "noise_dir", "volume_db", "codecs")
        changes = [f"--{name}" for name in flags if getattr(self, name)]
        if changes and not self.augmented_copies:
            raise errors.UserError(
                f"{', '.join(changes)} cannot have any effect, because --augmented_copies is 0; "
                "pass --augmented_copies=1."
            )
        if self.augmented_copies and not changes:
            raise errors.UserError(
                f"--augmented_copies={self.augmented_copies}: all copies would be the same; "
                "pass --rir_dir, --noise_dir, --volume_db or --codecs."
            )

    def _check_snr(self):
        snr = ",".join(f"{value:g}" for value in self.noise_snr_db)
        if len(self.noise_snr_db) != 2 or self.noise_snr_db[0] > self.noise_snr_db[1]:
            raise errors.UserError(
                f"--noise_snr_db is {snr}, expected the lowest and the highest ratio, for example 0,20."
            )
        if self.noise_snr_db != _SNR_DB and not self.noise_dir and not self.sound_share:
            raise errors.UserError(
                f"--noise_snr_db={snr} has no effect without noise; pass --noise_dir or --sound_share too, "
                "or leave --noise_snr_db out."
            )

    @property
    def is_plain(self) -> bool:
        """True if each utterance is written exactly once, unchanged."""
        return self.speed_perturb_factors == (1.0,) and not self.augmented_copies and not self.sound_share
