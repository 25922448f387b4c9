"""Which augmented copies of an utterance there are, and what they are called. No samples are touched here.

Each speed gives a copy of the utterance, and each of --augmented_copies one more at that speed, with a room,
a noise and a volume of its own:

    --speeds=0.9,1.0 --augmented_copies=1 --noise_dir=NOISE --volume_db=6

    u1~speed0.9    u1~speed0.9~copy1~noise-cafe-at12.3dB~volume-3.1dB
    u1             u1~copy1~noise-street-at4.0dB~volume+1.7dB

Every draw is a digest of the seed, the utterance's id, the copy and what is drawn, so nothing else changes
it: no order, no number of workers, no other folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.augmentation import augmentation_config
from tfrecord_builder.augmentation import sources as augmentation_sources

SEPARATOR = "~"  # parts the id of an utterance from what was done to it
_LAST_OFFSET = 0.9  # of a noise file, so that something is left to read behind it


@dataclasses.dataclass(frozen=True)
class Variant:
    """What is done to an utterance; plain values, so that Variant(**json) is what dataclasses.asdict gave.

    Attributes:
      speed: 0.9 is slower and lower.
      copy: which of the augmented copies at this speed, from 1; 0 for the one that has only the speed.
      room: path of a room's impulse response; None for none.
      noise: path of a noise recording; None for none.
      noise_seconds: how long that recording is.
      noise_offset_seconds: where in it the noise begins.
      snr_db: level of the speech above the noise.
      volume_db: change of level, after all else.
    """

    speed: float = 1.0
    copy: int = 0
    room: Optional[str] = None
    noise: Optional[str] = None
    noise_seconds: float = 0.0
    noise_offset_seconds: float = 0.0
    snr_db: float = 0.0
    volume_db: float = 0.0

    def name(self, utterance_id: str) -> str:
        """Gives the id of the copy: the utterance's own and what is done to it, parted by "~"."""
        parts = [
            utterance_id,
            f"speed{self.speed:g}" if self.speed != 1 else "",
            f"copy{self.copy}" if self.copy else "",
            f"room-{_stem(self.room)}" if self.room else "",
            f"noise-{_stem(self.noise)}-at{self.snr_db:.1f}dB" if self.noise else "",
            f"volume{self.volume_db:+.1f}dB" if self.volume_db else "",
        ]
        return SEPARATOR.join(filter(None, parts))


def list_variants(
    utterance_id: str, config: augmentation_config.AugmentationConfig, sources: augmentation_sources.Sources
) -> list[Variant]:
    """Lists the copies of an utterance, the one that changes nothing first if it is among them.

    Raises:
      UserError: the id could be that of a copy.
    """
    if SEPARATOR in utterance_id and not config.is_plain:
        raise errors.UserError(
            f"utterance {utterance_id}: its id has {SEPARATOR!r}, which parts an augmented copy's id, "
            "expected none; name the utterance otherwise or leave augmentation out."
        )
    speeds = sorted(config.speeds, key=lambda speed: (speed != 1, config.speeds.index(speed)))
    return [
        _draw_variant(utterance_id, speed, copy, config, sources)
        for speed in speeds
        for copy in range(config.augmented_copies + 1)
    ]


def _draw_variant(
    utterance_id: str,
    speed: float,
    copy: int,
    config: augmentation_config.AugmentationConfig,
    sources: augmentation_sources.Sources,
) -> Variant:
    if not copy:
        return Variant(speed=speed)

    def draw(what: str) -> float:
        """A number in [0, 1), uniform over utterances, copies and whats."""
        key = repr((config.augmentation_seed, utterance_id, speed, copy, what))
        return (
            int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:6], "big") / 2**48
        )

    variant = Variant(speed, copy, volume_db=round((2 * draw("volume") - 1) * config.volume_db, 1))
    if sources.rooms:
        variant = dataclasses.replace(
            variant, room=sources.rooms[int(draw("room") * len(sources.rooms))].path
        )
    if sources.noises:
        noise = sources.noises[int(draw("noise") * len(sources.noises))]
        low, high = config.noise_snr_db
        variant = dataclasses.replace(
            variant,
            noise=noise.path,
            noise_seconds=noise.seconds,
            noise_offset_seconds=round(draw("offset") * _LAST_OFFSET * noise.seconds, 3),
            snr_db=round(low + draw("snr") * (high - low), 1),
        )
    return variant


def _stem(path: str) -> str:
    """A file's name without its ending and without what an id must not have."""
    return re.sub(r"[^\w.+-]+", "_", os.path.splitext(os.path.basename(path))[0])
