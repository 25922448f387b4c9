"""Synthesises speech from pinyin with the neural model Kokoro-82M, run by ONNX Runtime.

A voice is a table of style vectors, one for each possible number of phonemes. The weighted mean of two voices
is a new speaker. The phonemes come from misaki 0.9 (zh.py, legacy_call), on which Kokoro-82M 1.0 was trained.
Styles and padding follow kokoro's pipeline.py and model.py (hexgrad, Apache 2.0).
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import importlib.util
import itertools
import os
import random
from collections.abc import Callable, Sequence

import numpy as np
import soxr

from tfrecord_builder import errors
from tfrecord_builder.data import syllables
from tfrecord_builder.program import config_json
from tfrecord_builder.storage import files
from tfrecord_builder.synthesis import prompts

_SAMPLE_RATE = 24000
_STYLES = (510, 256)  # shape of a voice: number of style vectors, size of each vector
_BLEND_PERCENT = range(30, 71, 5)  # possible weights of the first voice in a blend
_SPEEDS = (0.85, 1.15)  # range of speakers' mean speeds; 1 is Kokoro's normal speed
_SPEED_RANGE = 0.1  # maximum difference between an utterance's speed and the speaker's mean speed

_INITIALS = "b=p p=pʰ m=m f=f d=t t=tʰ n=n l=l g=k k=kʰ h=x j=ʨ q=ʨʰ x=ɕ zh=ꭧ ch=ꭧʰ sh=ʂ r=ɻ z=ʦ c=ʦʰ s=s"
_FINALS = (  # 0 is replaced by the tone
    "a=a0 ai=ai0 an=a0n ang=a0ŋ ao=au0 e=ɤ0 ê=ɛ0 ei=ei0 en=ə0n eng=ə0ŋ er=ɚ0 o=wo0 ong=ʊ0ŋ ou=ou0 -i=ɨ0 "
    "i=i0 ia=ja0 iai=jai0 ian=jɛ0n iang=ja0ŋ iao=jau0 ie=je0 in=i0n ing=i0ŋ io=jɔ0 iong=jʊ0ŋ iou=jou0 "
    "u=u0 ua=wa0 uai=wai0 uan=wa0n uang=wa0ŋ uei=wei0 uen=wə0n ueng=wə0ŋ uo=wo0 "
    "v=y0 van=ɥɛ0n ve=ɥe0 vn=y0n m=m0 n=n0 ng=ŋ0"
)
_TONES = "1=→ 2=↗ 3=↓ 4=↘ 5="
# Names of Latin letters as in misaki's en.py, but with a shorter w; no token has more than 6 phonemes.
_LETTERS = (
    "a=ˈA b=bˈi c=sˈi d=dˈi e=ˈi f=ˈɛf g=ʤˈi h=ˈAʧ i=ˈI j=ʤˈA k=kˈA l=ˈɛl m=ˈɛm "
    "n=ˈɛn o=ˈO p=pˈi q=kjˈu r=ˈɑɹ s=ˈɛs t=tˈi u=jˈu v=vˈi w=dˈʌbju x=ˈɛks y=wˈI z=zˈi"
)
_ALL = (_INITIALS, _FINALS, _TONES, _LETTERS)
_TABLES = [dict(pair.split("=") for pair in table.split()) for table in _ALL]


@dataclasses.dataclass(frozen=True)
class Speaker:
    """A voice, or a blend of two voices."""

    name: str
    weights: tuple[tuple[str, int], ...]  # (voice, percent) for one or two voices
    speed: float  # mean speed of the utterances; 1 is Kokoro's normal speed


@dataclasses.dataclass(frozen=True)
class KokoroEngine(prompts.SpeechEngine):
    """The speech synthesiser Kokoro; raises errors.UserError if ONNX Runtime or a model file is missing."""

    seed: int
    model_dir: str
    library = "onnxruntime"
    prompts_per_process = 50  # about two minutes of work, which an interruption can lose
    default_prefix = "z"

    def __post_init__(self):
        if importlib.util.find_spec("onnxruntime") is None:
            raise errors.UserError(
                "synthesise: onnxruntime is not installed; run: pip install 'onnxruntime>=1.17'"
            )
        if not os.path.isfile(self._path("kokoro.onnx")) or not self.list_voices():
            raise self._broken("kokoro.onnx or voices/*.bin is missing")
        symbols = {symbol for table in _TABLES for phonemes in table.values() for symbol in phonemes}
        missing = (symbols | set(" ,")) - {"0", *self._vocabulary}
        if missing:
            raise self._broken(f"the vocabulary lacks the symbols {' '.join(sorted(missing))}")

    def list_voices(self) -> list[str]:
        paths = glob.glob(os.path.join(glob.escape(self.model_dir), "voices", "*.bin"))
        return sorted(os.path.basename(path)[: -len(".bin")] for path in paths)

    def make_speakers(self, voices: Sequence[str], count: int) -> list[Speaker]:
        """Returns at most `count` speakers: first the voices, then random blends of two voices."""
        pairs = itertools.product(itertools.combinations(voices, 2), _BLEND_PERCENT)
        blends = [((a, percent), (b, 100 - percent)) for (a, b), percent in pairs]
        weights = [((voice, 100),) for voice in voices[:count]]
        num_blends = min(count - len(weights), len(blends))
        weights += random.Random(f"{self.seed}/{voices}").sample(blends, num_blends)
        return list(map(self._make_speaker, weights))

    def _make_speaker(self, weights: tuple[tuple[str, int], ...]) -> Speaker:
        name = "+".join(voice if percent == 100 else f"{voice}{percent}" for voice, percent in weights)
        return Speaker(name, weights, prompts.random_state(self.seed, name).uniform(*_SPEEDS))

    def speaks(self, token: str) -> bool:
        return token in _TABLES[-1] or super().speaks(token)

    def pronounce(self, words: Sequence[str], tokens: list[str]) -> list[str]:
        return list(map(to_phonemes, tokens))

    def open(self) -> Callable[[prompts.Prompt], np.ndarray]:
        import onnxruntime

        onnxruntime.set_seed(self.seed)  # some exports of the model generate random noise
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        try:
            session = onnxruntime.InferenceSession(self._path("kokoro.onnx"), options, providers=providers)
        except Exception as error:  # ONNX Runtime's errors have no common base class
            raise self._broken(f"kokoro.onnx cannot be loaded ({error})") from error
        return functools.partial(self._speak, session)

    def _speak(self, session, prompt: prompts.Prompt) -> np.ndarray:
        ids = [self._vocabulary[symbol] for symbol in " ".join(self.spell(prompt))]
        shift = prompts.random_state(self.seed, prompt.utterance_id).uniform(-_SPEED_RANGE, _SPEED_RANGE)
        feeds = {
            # This input is named "tokens" or "input_ids", depending on the export.
            session.get_inputs()[0].name: np.array([[0, *ids, 0]], np.int64),
            "style": self._read_styles(prompt.speaker)[len(ids) - 1, np.newaxis],
            "speed": np.array([prompt.speaker.speed + shift], np.float32),
        }
        try:
            speech = session.run(None, feeds)[0].reshape(-1)
        except Exception as error:  # ONNX Runtime's errors have no common base class
            raise self._broken(f"kokoro.onnx cannot be run ({error})") from error
        return soxr.resample(speech, _SAMPLE_RATE, prompts.SAMPLE_RATE)

    def _read_styles(self, speaker: Speaker) -> np.ndarray:
        """Returns a speaker's style vectors, one for each number of phonemes; float32 of shape _STYLES."""
        styles = np.zeros(_STYLES, np.float32)
        for voice, percent in speaker.weights:
            values = np.fromfile(self._path(f"voices/{voice}.bin"), "<f4")
            if values.size != styles.size:
                raise self._broken(f"voices/{voice}.bin has {values.size} values, expected {styles.size}")
            styles += np.float32(percent / 100) * values.reshape(_STYLES)
        return styles

    @functools.cached_property
    def _vocabulary(self) -> dict[str, int]:
        """The id of each symbol, from the JSON object in the vocabulary file or from its "vocab" member."""
        try:
            path = next(filter(os.path.isfile, map(self._path, ("vocab.json", "config.json"))))
            content = config_json.parse(files.read_text(path))
            return dict(content.get("vocab", content))
        except (StopIteration, OSError, ValueError, TypeError, AttributeError) as error:
            raise self._broken("vocab.json or config.json must contain the vocabulary") from error

    def _path(self, name: str) -> str:
        return os.path.join(self.model_dir, name)

    def _broken(self, problem: str) -> errors.UserError:
        return errors.UserError(
            f"--model={self.model_dir}: {problem}. The directory of Kokoro-82M 1.0 must contain "
            "kokoro.onnx, vocab.json or config.json, and voices/*.bin; "
            "docs/synthesise.md says where to get these files."
        )


def to_phonemes(token: str) -> str:
    """Returns the phonemes of a toned syllable or a Latin letter: ꭧʊ→ŋ for zhong1, ˈɛks for x."""
    initials, finals, tones, letters = _TABLES
    if token in letters:
        return letters[token]
    initial, final, tone = syllables.split_syllable(token)
    if (initial, final) == ("", "o"):  # the interjection o
        return f"ɔ{tones[tone]}"
    spelled = finals[final] if final in finals else f"{finals[final[:-1]]}ɻ"  # er-hua adds ɻ to the final
    return initials.get(initial, "") + spelled.replace("0", tones[tone])
