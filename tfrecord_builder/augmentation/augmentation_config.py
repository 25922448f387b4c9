"""The flags of augmentation; what the copies are is in augmentation_plan."""

from __future__ import annotations

import dataclasses

from tfrecord_builder import config_flags, errors

_SNR_DB = (0.0, 20.0)  # range of the list 20:10:15:5:0 that Kaldi's recipes give to reverberate_data_dir.py


@dataclasses.dataclass(frozen=True)
class AugmentationConfig:
    """Copies of the train split's utterances; the defaults make none."""

    speeds: tuple[float, ...] = config_flags.setting(
        (1.0,),
        "speed perturbation: a copy of each train utterance for each speed, usually 0.9,1.0,1.1; without 1.0 "
        "the utterance as it is is left out",
        minimum=0.5,
        maximum=2,
    )
    augmented_copies: int = config_flags.setting(
        0,
        "further copies of each train utterance at each of the speeds, each in a room of --room_dir, with a "
        "noise of --noise_dir and a change of --volume_db drawn anew, as far as these are given",
        minimum=0,
    )
    room_dir: str = config_flags.setting("", "folder of room impulse responses, at any depth")
    noise_dir: str = config_flags.setting("", "folder of noise recordings, at any depth")
    noise_snr_db: tuple[float, ...] = config_flags.setting(
        _SNR_DB, "lowest and highest level of the speech above the noise in dB", minimum=-50, maximum=100
    )
    volume_db: float = config_flags.setting(
        0.0, "change of level by up to so many dB up or down", minimum=0, maximum=60
    )
    augmentation_seed: int = config_flags.setting(1, "decides what is drawn")

    def __post_init__(self):
        config_flags.validate(self)
        _check_speeds(self.speeds)
        _check_snr(self.noise_snr_db, self.noise_dir)
        changes = [f"--{name}" for name in ("room_dir", "noise_dir", "volume_db") if getattr(self, name)]
        if changes and not self.augmented_copies:
            raise errors.UserError(
                f"{', '.join(changes)}: --augmented_copies is 0, expected at least 1 copy to be so changed; "
                "pass --augmented_copies=1."
            )
        if self.augmented_copies and not changes:
            raise errors.UserError(
                f"--augmented_copies={self.augmented_copies}: the copies would all be the same, expected "
                "something to change; pass --room_dir, --noise_dir or --volume_db."
            )

    @property
    def is_plain(self) -> bool:
        """True if every utterance is taken once, as it is."""
        return self.speeds == (1.0,) and not self.augmented_copies


def _check_speeds(speeds: tuple[float, ...]) -> None:
    names = [f"{speed:g}" for speed in speeds]
    if not speeds or len(set(names)) < len(names):
        raise errors.UserError(
            f"--speeds={','.join(names)}: they are {'given twice' if speeds else 'missing'}, expected "
            "different ones; pass for example --speeds=0.9,1.0,1.1."
        )


def _check_snr(snr_db: tuple[float, ...], noise_dir: str) -> None:
    given = ",".join(f"{value:g}" for value in snr_db)
    if len(snr_db) != 2 or snr_db[0] > snr_db[1]:
        raise errors.UserError(
            f"--noise_snr_db={given}: it is no range, expected lowest,highest; pass for example 0,20."
        )
    if snr_db != _SNR_DB and not noise_dir:
        raise errors.UserError(
            f"--noise_snr_db={given}: there is no noise, expected --noise_dir with it; leave it out."
        )
