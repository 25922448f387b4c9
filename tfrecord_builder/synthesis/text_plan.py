"""Plans a corpus from text: assigns sentences to speakers. The plan depends only on settings and text."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.corpora import registry
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import labelling, normalisation, numerals, tone_sandhi
from tfrecord_builder.program import config_flags
from tfrecord_builder.synthesis import espeak, kokoro, prompts

TTS = {  # functions that create an engine from the settings
    "espeak": lambda config: espeak.EspeakEngine(config.synthesis_seed),
    "kokoro": lambda config: kokoro.KokoroEngine(config.synthesis_seed, config.model),
}
_MAX_TOKENS = 60  # a token takes up to 6 phonemes, a comma and a space; Kokoro accepts 510 symbols
_RULE = (
    f"a sentence needs 1 to {_MAX_TOKENS} hanzi, each with a toned syllable (or Latin letters with kokoro)"
)
_HELD_OUT = 4  # one quarter of the voices is reserved for dev, another quarter for test


@dataclasses.dataclass(frozen=True)
class SynthesisConfig(config_flags.Checked):
    """Settings for the text, the engine and the speakers of a synthetic corpus."""

    text_dir: tuple[str, ...] = config_flags.setting(
        (), "text directories, as for build --corpus=text; separate several with commas", required=True
    )
    tts: Optional[str] = config_flags.setting(None, "speech synthesiser", choices=sorted(TTS), required=True)
    model: str = config_flags.setting(
        "", "directory of the Kokoro model (see docs/synthesise.md)", local=True
    )
    voices: tuple[str, ...] = config_flags.setting(
        (), "names of voices, separated by commas; default: all Mandarin voices"
    )
    num_speakers: Optional[int] = config_flags.setting(
        None,
        "number of speakers; default: one per voice; additional speakers are blends of two voices (kokoro) "
        "or other voices of the same timbre (espeak)",
        minimum=1,
    )
    num_utterances: Optional[int] = config_flags.setting(
        None, "number of sentences to sample from the text; default: all", minimum=1
    )
    tone_sandhi: bool = config_flags.setting(
        False, "apply tone sandhi to sentences without pinyin, as build --tone_sandhi does"
    )
    synthesis_seed: int = config_flags.setting(1, "random seed for sentences and speakers", minimum=0)


def make_plan(
    config: SynthesisConfig, engine: prompts.SpeechEngine
) -> tuple[list[prompts.Prompt], list[tuple[str, str, str, str]]]:
    """Returns the prompts, and a row for rejected.tsv for each sentence that cannot be spoken.

    Raises errors.UserError if the text cannot be read or spoken, or there are not enough voices.
    """
    utterances = _sample_text(config)
    splits = sorted({utterance.split for utterance in utterances}, key=manifest.SPLITS.index)
    speakers = assign_speakers(config, engine, splits)
    labeller = labelling.Labeller(labelling.LabelConfig(numbers="read", tone_sandhi=config.tone_sandhi))
    planned, rejected = [], []
    for utterance in utterances:
        name, split, text = utterance.utterance_id, utterance.split, utterance.text
        labels, choices = labeller(utterance), speakers[split]
        is_spoken = all(map(engine.speaks, labels.tokens)) and not normalisation.find_unreadable(text)
        if labels.characters and is_spoken and len(labels.tokens) <= _MAX_TOKENS:
            rng = prompts.random_state(config.synthesis_seed, f"speaker of {name}")
            speaker, (spoken, phrases) = choices[rng.randint(len(choices))], _segment(text, labels.transcript)
            planned.append(prompts.Prompt(name, split, speaker, phrases, labels.tokens, spoken))
        else:
            rejected.append((name, split, f"cannot be spoken: {_RULE}", ""))
    if not planned:
        raise errors.UserError(
            f"--text_dir: none of the {len(utterances)} sentences can be spoken; {_RULE}. Fix the text."
        )
    return planned, rejected


def assign_speakers(
    config: SynthesisConfig, engine: prompts.SpeechEngine, splits: Sequence[str]
) -> dict[str, list]:
    """Returns the speakers of each split.

    Each split except the first has its own quarter of the voices and speakers, so that no dev or test voice
    occurs in train, not even in a blend. If there are fewer than four voices, all splits share all voices.
    """
    names, prefix = engine.list_voices(), engine.default_prefix
    voices = list(dict.fromkeys(config.voices)) or [name for name in names if name.startswith(prefix)]
    if not voices or not set(voices) <= set(names):
        raise errors.UserError(
            f"--voices: {', '.join(sorted(set(voices) - set(names))) or 'an empty list'} cannot be used with "
            f"--tts={config.tts}; choose from {', '.join(names)}."
        )
    num_speakers = config.num_speakers or len(voices)
    voices = random.Random(config.synthesis_seed).sample(voices, min(num_speakers, len(voices)))
    quarter, speakers = len(voices) // _HELD_OUT, {}
    for split in splits[1:] if quarter else ():
        speakers[split] = engine.make_speakers(voices[:quarter], num_speakers // _HELD_OUT)
        voices = voices[quarter:]
    num_held_out = sum(map(len, speakers.values()))
    others = engine.make_speakers(voices, num_speakers - num_held_out)
    if num_held_out + len(others) < num_speakers:
        raise errors.UserError(
            f"--num_speakers is {num_speakers}, expected at most {num_held_out + len(others)} with "
            f"--tts={config.tts} and these voices; choose a smaller number, or pass more --voices."
        )
    return {**dict.fromkeys(splits, others), **speakers}


def _sample_text(config: SynthesisConfig) -> list[manifest.Utterance]:
    utterances = list(registry.list_utterances("text", config.text_dir, flag="--text_dir"))
    count = min(config.num_utterances or len(utterances), len(utterances))
    chosen = random.Random(config.synthesis_seed).sample(range(len(utterances)), count)
    return [utterances[i] for i in sorted(chosen)]


def _segment(text: str, transcript: str) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """Returns the text as it is spoken, and its phrases segmented into words.

    The spoken text is the text, the text with its numbers in hanzi, or the transcript: the first of these
    whose phrases, joined, equal the transcript.
    """
    for spoken in (text, numerals.read(text)):
        phrases = normalisation.split_phrases(spoken)
        if "".join(phrases) == transcript:
            break
    else:
        spoken, phrases = transcript, [transcript]
    return " ".join(spoken.split()), tuple(tuple(tone_sandhi.segment(phrase)) for phrase in phrases)
