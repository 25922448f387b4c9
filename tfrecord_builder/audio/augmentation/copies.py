"""Lists the augmented copies of an utterance, their ids, and the recordings that they use.

For each speed factor, there is one copy at that speed and --augmented_copies further copies, each with
its own reverberation, noise, volume and codec:

    --speed_perturb_factors=0.9,1.0 --augmented_copies=1 --noise_dir=NOISE --volume_db=6

    u1~speed0.9    u1~speed0.9~copy1~noise-cafe-at12.3dB~volume-3.1dB
    u1             u1~copy1~noise-street-at4.0dB~volume+1.7dB

With --sound_share, some utterances have one more copy, in which a sound is added to the words or replaces
them:

    u2~sound-music-at7.1dB    u3~wordless-babble

Each random number is a hash of the seed, the utterance id, the copy and the quantity sampled, so it does not
depend on the order of utterances, the number of workers or the contents of other directories.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
from typing import Optional

import soundfile

from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import augmentation_config, codecs, copy_ids
from tfrecord_builder.program import urls
from tfrecord_builder.storage import files

_MAX_RIR_SECONDS = 10.0  # the reverberation time of a large cathedral
_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")
_UNKNOWN_SECONDS = 1e9  # longer than any recording; a FLAC header from a pipe states 2^63 - 1 samples
_NUM_HASHES = 2**48
# Babble sounds most like speech, so it is more likely than other sounds, but it is never added to
# words, because a model would learn to find words in babble.
_ALONE = ("noise", "tones", "music", "babble", "babble")
_AROUND_WORDS = ("noise", "tones", "music")
_LAST_OFFSET = 0.9  # noise starts in the first 90 % of its recording, so that some noise follows


@dataclasses.dataclass(frozen=True)
class Source:
    """A recording of a room impulse response or of noise."""

    path: str
    name: str  # path relative to --rir_dir or --noise_dir
    seconds: float  # duration, rounded down to milliseconds
    signature: tuple[int, int]  # size in bytes and modification time in ns


@dataclasses.dataclass(frozen=True)
class Sources:
    """Room impulse responses and noise recordings, sorted by name."""

    rirs: tuple[Source, ...] = ()
    noises: tuple[Source, ...] = ()

    def describe(self, config: augmentation_config.AugmentationConfig) -> list:
        """Returns the settings and the names and signatures of the recordings, as values for JSON."""
        groups = (self.rirs, self.noises)
        described = [[[source.name, *source.signature] for source in group] for group in groups]
        return [dataclasses.asdict(config), described]


@dataclasses.dataclass(frozen=True)
class Variant:
    """The changes that make a copy; the values are JSON values, because variants are stored as JSON."""

    speed: float = 1.0  # speed factor; 0.9 is slower and lower in pitch
    copy: int = 0  # number of the augmented copy at this speed, from 1; 0 if only the speed is changed
    room: Optional[str] = None  # path of a room impulse response; None for no reverberation
    noise: Optional[str] = None  # path of a noise recording; None for no noise
    noise_seconds: float = 0.0  # duration of the noise recording
    noise_offset_seconds: float = 0.0  # position in the noise recording at which to start
    snr_db: float = 0.0  # signal-to-noise ratio for `noise` or `sound`
    volume_db: float = 0.0  # gain, applied before the codec
    codec: Optional[str] = None  # key of codecs.CHANNELS; None for no codec
    codec_setting: int = 0  # setting of the codec's channel
    sound: Optional[str] = None  # key of sounds.KINDS; None for no synthesised sound
    sound_seed: int = 0  # random seed for the sound
    is_wordless: bool = False  # True if the sound replaces the words, False if it is added to them at snr_db

    def name(self, utterance_id: str) -> str:
        """Returns the copy's id: the utterance id followed by the changes, separated by "~"."""
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
        return copy_ids.SEPARATOR.join(filter(None, parts))


def list_variants(
    utterance_id: str, config: augmentation_config.AugmentationConfig, sources: Sources
) -> list[Variant]:
    """Returns the copies of an utterance; the unchanged copy, if included, comes first.

    Raises UserError if copies are made and the utterance id looks like the id of a copy.
    """
    mark = copy_ids.COPY.search(utterance_id)
    if mark and not config.is_plain:
        raise errors.UserError(
            f"utterance id {utterance_id} contains {mark[0]!r}, which is reserved for augmented copies; "
            "rename the utterance or build with --speed_perturb_factors=1 --augmented_copies=0 "
            "--sound_share=0."
        )
    variants = [
        _sample_variant(utterance_id, speed, copy, config, sources)
        for speed in sorted(config.speed_perturb_factors, key=lambda factor: factor != 1)
        for copy in range(config.augmented_copies + 1)
    ]
    return variants + _sample_sound(utterance_id, config)


def _sample_sound(utterance_id: str, config) -> list[Variant]:
    """Returns at most one copy, in which a sound is added to the words or replaces them."""

    def sample(what: str) -> int:
        return _hash(config.augmentation_seed, utterance_id, what)

    fraction, seed = sample("sound share") / _NUM_HASHES, sample("sound")
    if fraction >= 2 * config.sound_share:
        return []
    is_wordless = fraction < config.sound_share
    kinds = _ALONE if is_wordless else _AROUND_WORDS
    low, high = config.noise_snr_db
    snr_db = round(low + sample("sound snr") / _NUM_HASHES * (high - low), 1)
    return [Variant(snr_db=snr_db, sound=kinds[seed % len(kinds)], sound_seed=seed, is_wordless=is_wordless)]


def _sample_variant(utterance_id: str, speed: float, copy: int, config, sources: Sources) -> Variant:
    if not copy:
        return Variant(speed)

    def sample(what: str) -> float:
        """Returns a uniform random number in [0, 1) for the quantity `what` of this copy."""
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
    """Returns an integer hash of the key, from 0 to _NUM_HASHES - 1."""
    digest = hashlib.sha256(repr(key).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big")


def find_sources(config: augmentation_config.AugmentationConfig) -> Sources:
    """Finds the WAV, FLAC, Ogg and MP3 files under --rir_dir and --noise_dir, and reads their headers.

    Raises UserError if a directory is missing or contains no such file, or if a file is not audio, is empty,
    has an unknown duration, or is an impulse response longer than 10 s.
    """
    return Sources(
        rirs=_find("rir_dir", config.rir_dir, _MAX_RIR_SECONDS) if config.rir_dir else (),
        noises=_find("noise_dir", config.noise_dir, None) if config.noise_dir else (),
    )


def _find(flag: str, directory: str, max_seconds: Optional[float]) -> tuple[Source, ...]:
    if not files.is_directory(directory):
        raise errors.UserError(
            f"--{flag}: {directory} is not a directory; choose a directory of audio files."
        )
    where = directory if urls.is_remote(directory) else os.path.abspath(directory)
    names = sorted(path[len(where) :].lstrip("/") for path in files.find_files(where, _SUFFIXES))
    if not names:
        raise errors.UserError(
            f"--{flag}: {directory} contains no audio files ({', '.join(_SUFFIXES)}); choose another "
            "directory."
        )
    return tuple(_inspect(flag, os.path.join(where, name), name, max_seconds) for name in names)


def _inspect(flag: str, path: str, name: str, max_seconds: Optional[float]) -> Source:
    try:
        with files.open_binary(path) as file, soundfile.SoundFile(file.fileno(), closefd=False) as stream:
            seconds = 1000 * stream.frames // stream.samplerate / 1000
    except (OSError, soundfile.SoundFileError) as error:
        reason = getattr(error, "strerror", None) or getattr(error, "error_string", error)
        raise errors.UserError(
            f"--{flag}: {path} cannot be read ({str(reason).rstrip('.')}); copy the file again or remove it."
        ) from error
    if not 0 < seconds <= (max_seconds or _UNKNOWN_SECONDS):
        if max_seconds:
            problem = f"contains {seconds:g} s of audio, expected more than 0 and at most {max_seconds:g} s"
        else:
            problem = "has no duration in its header" if seconds else "contains no audio"
        raise errors.UserError(f"--{flag}: {path} {problem}; remove the file from the directory.")
    return Source(path, name, seconds, files.size_and_time(path))


def _stem(path: str) -> str:
    """Returns the file name without its suffix; characters not allowed in ids are replaced by "_"."""
    return re.sub(r"[^\w.+-]+", "_", os.path.splitext(os.path.basename(path))[0])
