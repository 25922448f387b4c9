"""Augmented copies of an utterance: which there are, their ids, and the recordings that they sample from.

Each speed factor gives a copy of the utterance, and each of --augmented_copies another one at that speed,
with its own reverberation, noise, volume and codec:

    --speed_perturb_factors=0.9,1.0 --augmented_copies=1 --noise_dir=NOISE --volume_db=6

    u1~speed0.9    u1~speed0.9~copy1~noise-cafe-at12.3dB~volume-3.1dB
    u1             u1~copy1~noise-street-at4.0dB~volume+1.7dB

With --sound_share some utterances have one copy more: with a sound added, or with one instead of the words:

    u2~sound-music-at7.1dB    u3~wordless-babble

Every random number is a hash of the seed, the utterance id, the copy and what is sampled, so nothing else
changes it: not the order, not the number of workers, not the contents of another directory.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from typing import Optional

import soundfile

from tfrecord_builder import errors
from tfrecord_builder.augmentation import augmentation_config, codecs
from tfrecord_builder.data import schema
from tfrecord_builder.storage import files

_MAX_RIR_SECONDS = 10.0  # the longest reverberation of a cathedral
_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")
_UNKNOWN_SECONDS = 1e9  # a FLAC from a pipe has a count of 2^63 - 1 samples
_NUM_HASHES = 2**48
# Voices are most like words; they are never added to words, or a model would learn to find words in voices.
_ALONE = ("noise", "tones", "music", "babble", "babble")
_AROUND_WORDS = ("noise", "tones", "music")
_LAST_OFFSET = 0.9  # of a noise recording, so that something is left to read after it


@dataclasses.dataclass(frozen=True)
class Source:
    """A recording: name relative to its directory, duration rounded down to ms, size in bytes and time."""

    path: str
    name: str
    seconds: float
    signature: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Sources:
    """Room impulse responses and noise recordings, sorted by name."""

    rirs: tuple[Source, ...] = ()
    noises: tuple[Source, ...] = ()

    def describe(self, config: augmentation_config.AugmentationConfig) -> list:
        """Returns what copies depend on, for JSON: the settings; name, size and time of each recording."""
        recordings = [[[each.name, *each.signature] for each in kind] for kind in (self.rirs, self.noises)]
        return [dataclasses.asdict(config), recordings]


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
        sound: name of one of sounds.KINDS; None for no such sound.
        sound_seed: of that sound.
        is_wordless: whether the sound takes the place of the words, instead of being added at snr_db.
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
    sound: Optional[str] = None
    sound_seed: int = 0
    is_wordless: bool = False

    def name(self, utterance_id: str) -> str:
        """Returns the id of the copy: that of the utterance and the changes, separated by "~"."""
        parts = [
            utterance_id,
            f"speed{self.speed:g}" if self.speed != 1 else "",
            f"copy{self.copy}" if self.copy else "",
            f"room-{_stem(self.room)}" if self.room else "",
            f"noise-{_stem(self.noise)}-at{self.snr_db:.1f}dB" if self.noise else "",
            f"volume{self.volume_db:+.1f}dB" if self.volume_db else "",
            codecs.CHANNELS[self.codec].name.format(self.codec_setting) if self.codec else "",
            f"wordless-{self.sound}" if self.is_wordless else "",
            f"sound-{self.sound}-at{self.snr_db:.1f}dB" if self.sound and not self.is_wordless else "",
        ]
        return schema.COPY_SEPARATOR.join(filter(None, parts))


def list_variants(
    utterance_id: str, config: augmentation_config.AugmentationConfig, sources: Sources
) -> list[Variant]:
    """Returns the copies of an utterance, first the one that changes nothing, if it is among them.

    Raises UserError if the id could be that of a copy.
    """
    mark = schema.COPY.search(utterance_id)
    if mark and not config.is_plain:
        raise errors.UserError(
            f"utterance {utterance_id}: its id contains {mark[0]!r}, which marks augmented "
            "copies; rename the utterance, or build without such copies (--sound_share=0)."
        )
    variants = [
        _sample_variant(utterance_id, speed, copy, config, sources)
        for speed in sorted(config.speed_perturb_factors, key=lambda factor: factor != 1)
        for copy in range(config.augmented_copies + 1)
    ]
    return variants + _sample_sound(utterance_id, config)


def _sample_sound(utterance_id: str, config) -> list[Variant]:
    """Returns at most one copy: with a sound, or of a sound alone."""

    def sample(what: str) -> int:
        return _hash(config.augmentation_seed, utterance_id, what)

    drawn, seed = sample("sound share") / _NUM_HASHES, sample("sound")
    if drawn >= 2 * config.sound_share:
        return []
    is_wordless = drawn < config.sound_share
    kinds = _ALONE if is_wordless else _AROUND_WORDS
    low, high = config.noise_snr_db
    snr_db = round(low + sample("sound snr") / _NUM_HASHES * (high - low), 1)
    return [Variant(snr_db=snr_db, sound=kinds[seed % len(kinds)], sound_seed=seed, is_wordless=is_wordless)]


def _sample_variant(utterance_id: str, speed: float, copy: int, config, sources: Sources) -> Variant:
    if not copy:
        return Variant(speed)

    def sample(what: str) -> float:
        """Returns a number in [0, 1), uniform over utterances, copies and what is sampled."""
        return _hash(config.augmentation_seed, utterance_id, speed, copy, what) / _NUM_HASHES

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


def _hash(*key) -> int:
    """Returns a number below _NUM_HASHES."""
    digest = hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big")


def find_sources(config: augmentation_config.AugmentationConfig) -> Sources:
    """Finds the WAV, FLAC, Ogg and MP3 files in the directories, recursively, and reads their headers.

    Raises UserError if a directory has none, or one is not audio, is empty or (an impulse response) too long.
    """
    return Sources(
        rirs=_find("rir_dir", config.rir_dir, _MAX_RIR_SECONDS) if config.rir_dir else (),
        noises=_find("noise_dir", config.noise_dir, None) if config.noise_dir else (),
    )


def _find(flag: str, directory: str, max_seconds: Optional[float]) -> tuple[Source, ...]:
    if not files.is_directory(directory):
        raise errors.UserError(f"--{flag}: {directory} is not a directory; choose one of audio files.")
    where = directory if files.is_remote(directory) else os.path.abspath(directory)
    names = sorted(path[len(where) :].lstrip("/") for path in files.find_files(where, _SUFFIXES))
    if not names:
        raise errors.UserError(
            f"--{flag}: {directory} has no audio, expected {', '.join(_SUFFIXES)}; choose another directory."
        )
    return tuple(_inspect(flag, os.path.join(where, name), name, max_seconds) for name in names)


def _inspect(flag: str, path: str, name: str, max_seconds: Optional[float]) -> Source:
    try:
        with files.open_binary(path) as file, soundfile.SoundFile(file.fileno(), closefd=False) as stream:
            seconds = 1000 * stream.frames // stream.samplerate / 1000
    except (OSError, soundfile.SoundFileError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "error_string", error)
        raise errors.UserError(
            f"--{flag}: {path} cannot be read ({str(reason).rstrip('.')}); copy it again or remove it."
        ) from error
    if not 0 < seconds <= (max_seconds or _UNKNOWN_SECONDS):
        expected = f"at most {max_seconds:g} s" if max_seconds else "a known duration"
        raise errors.UserError(
            f"--{flag}: {path} has {seconds:g} s of audio, expected {expected}; remove it from the directory."
        )
    return Source(path, name, seconds, files.size_and_time(path))


def _stem(path: str) -> str:
    # Without its suffix and without characters that an id must not have.
    return re.sub(r"[^\w.+-]+", "_", os.path.splitext(os.path.basename(path))[0])
