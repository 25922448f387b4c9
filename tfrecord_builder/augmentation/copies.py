"""Augmented copies of an utterance: which there are, and their ids. Reads no audio.

Each speed factor gives a copy of the utterance, and each of --augmented_copies another one at that speed,
with its own reverberation, noise, volume and codec:

    --speed_perturb_factors=0.9,1.0 --augmented_copies=1 --noise_dir=NOISE --volume_db=6

    u1~speed0.9    u1~speed0.9~copy1~noise-cafe-at12.3dB~volume-3.1dB
    u1             u1~copy1~noise-street-at4.0dB~volume+1.7dB

Every random number is a hash of the seed, the utterance id, the copy and what is sampled, so nothing else
changes it: not the order, not the number of workers, not the contents of another directory.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.augmentation import augmentation_config, codecs
from tfrecord_builder.augmentation import sources as augmentation_sources
from tfrecord_builder.data import schema

_LAST_OFFSET = 0.9  # of a noise recording, so that something is left to read after it


@dataclasses.dataclass(frozen=True)
class Variant:
    """The changes of a copy, as plain values: Variant(**json) is what dataclasses.asdict returned.

    Attributes:
        speed: factor; 0.9 is slower and lower.
        copy: number of the augmented copy at this speed, from 1; 0 for the copy that has only the speed.
        room: path of a room impulse response; None for no reverberation.
        noise: path of a noise recording; None for no noise.
        noise_seconds: duration of that recording.
        noise_offset_seconds: where in it the noise begins.
        snr_db: signal-to-noise ratio.
        volume_db: gain, applied before the codec.
        codec: name of one of codecs.CHANNELS; None for no codec.
        codec_setting: of that channel.
    """

    speed: float = 1.0
    copy: int = 0
    room: Optional[str] = None
    noise: Optional[str] = None
    noise_seconds: float = 0.0
    noise_offset_seconds: float = 0.0
    snr_db: float = 0.0
    volume_db: float = 0.0
    codec: Optional[str] = None
    codec_setting: int = 0

    def name(self, utterance_id: str) -> str:
        """Returns the id of the copy: that of the utterance and the changes, separated by "~"."""
        parts = [
            utterance_id,
            f"speed{self.speed:g}" if self.speed != 1 else "",
            f"copy{self.copy}" if self.copy else "",
            f"room-{_stem(self.room)}" if self.room else "",
            f"noise-{_stem(self.noise)}-at{self.snr_db:.1f}dB" if self.noise else "",
            f"volume{self.volume_db:+.1f}dB" if self.volume_db else "",
            codecs.describe(self.codec, self.codec_setting) if self.codec else "",
        ]
        return schema.COPY_SEPARATOR.join(filter(None, parts))


def list_variants(
    utterance_id: str, config: augmentation_config.AugmentationConfig, sources: augmentation_sources.Sources
) -> list[Variant]:
    """Returns the copies of an utterance; the one that changes nothing comes first if it is among them.

    Raises:
        UserError: the id could be that of a copy.
    """
    if schema.COPY_SEPARATOR in utterance_id and not config.is_plain:
        raise errors.UserError(
            f"utterance {utterance_id}: its id contains {schema.COPY_SEPARATOR!r}, which marks augmented "
            "copies; rename the utterance or leave augmentation out."
        )
    factors = config.speed_perturb_factors
    return [
        _sample_variant(utterance_id, speed, copy, config, sources)
        for speed in sorted(factors, key=lambda factor: (factor != 1, factors.index(factor)))
        for copy in range(config.augmented_copies + 1)
    ]


def _sample_variant(
    utterance_id: str,
    speed: float,
    copy: int,
    config: augmentation_config.AugmentationConfig,
    sources: augmentation_sources.Sources,
) -> Variant:
    if not copy:
        return Variant(speed=speed)

    def sample(what: str) -> float:
        """Returns a number in [0, 1), uniform over utterances, copies and what is sampled."""
        key = repr((config.augmentation_seed, utterance_id, speed, copy, what))
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest[:6], "big") / 2**48

    changes = {"volume_db": round((2 * sample("volume") - 1) * config.volume_db, 1)}
    if sources.rirs:
        changes["room"] = sources.rirs[int(sample("room") * len(sources.rirs))].path
    if sources.noises:
        noise = sources.noises[int(sample("noise") * len(sources.noises))]
        low, high = config.noise_snr_db
        changes["noise"], changes["noise_seconds"] = noise.path, noise.seconds
        changes["noise_offset_seconds"] = round(sample("offset") * _LAST_OFFSET * noise.seconds, 3)
        changes["snr_db"] = round(low + sample("snr") * (high - low), 1)
    if config.codecs:
        changes["codec"] = config.codecs[int(sample("codec") * len(config.codecs))]
        changes["codec_setting"] = codecs.CHANNELS[changes["codec"]].sample(sample("codec_setting"))
    return Variant(speed, copy, **changes)


def _stem(path: str) -> str:
    """Returns the name of a file without its suffix and without characters that an id must not have."""
    return re.sub(r"[^\w.+-]+", "_", os.path.splitext(os.path.basename(path))[0])
