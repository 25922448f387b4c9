"""Directory of a synthesised corpus: the settings are written first, the manifest last."""

from __future__ import annotations

import json
import os

from estimator_asr.demo import pronunciation, script
from tfrecord_builder import errors
from tfrecord_builder.data import manifest
from tfrecord_builder.settings import config_json
from tfrecord_builder.storage import files

MANIFEST_FILE = "manifest.tsv"
TEXT_DIR = "text"
_SETTINGS_FILE = "synthesis.json"


def claim(output_dir: str, config: script.SynthesisConfig, plan: script.Plan) -> None:
    """Makes the directory and writes the settings and a digest of the plan to it.

    Raises:
        errors.UserError: the directory contains something else, or a corpus that was built from different
            settings, sentences, pinyin or voices.
    """
    path = os.path.join(output_dir, _SETTINGS_FILE)
    digest = script.fingerprint(plan, config.synthesis_seed)
    settings = {**config_json.to_json_dict(config), "plan_sha256": digest}
    expected = json.dumps(settings, indent=2, sort_keys=True)
    os.makedirs(output_dir, exist_ok=True)
    if not os.path.exists(path):
        if os.listdir(output_dir):
            raise errors.UserError(
                f"--output_dir: {output_dir} contains files but no {_SETTINGS_FILE}, expected an empty or a "
                "new directory; choose another one."
            )
        files.write_text(path, expected)
    with open(path, encoding="utf-8") as file:
        found = file.read()
    if found != expected:
        raise errors.UserError(
            "--output_dir: the corpus there was built from different settings, sentences, pinyin or voices: "
            f"{path} is {' '.join(found.split())}, expected {' '.join(expected.split())}; remove the "
            "directory or choose another one."
        )


def write_tables(output_dir: str, plan: script.Plan) -> None:
    """Writes text/*.tsv, then the manifest."""
    os.makedirs(os.path.join(output_dir, TEXT_DIR), exist_ok=True)
    for split, sentences in plan.text.items():
        lines = (f"{''.join(sentence)}\t{_pinyin(sentence)}\n" for sentence in sentences)
        files.write_text(
            os.path.join(output_dir, TEXT_DIR, f"{split}.tsv"), "hanzi\tpinyin\n" + "".join(lines)
        )
    utterances = [_utterance(output_dir, prompt) for prompt in plan.prompts]
    with files.writing(os.path.join(output_dir, MANIFEST_FILE)) as temporary:
        manifest.write_manifest(temporary, utterances)


def recording_path(output_dir: str, prompt: script.Prompt) -> str:
    """Returns the path of a recording's WAV file."""
    return os.path.join(output_dir, "wav", prompt.variant, f"{prompt.utterance_id}.wav")


def _utterance(output_dir: str, prompt: script.Prompt) -> manifest.Utterance:
    return manifest.Utterance(
        utterance_id=prompt.utterance_id,
        audio=recording_path(output_dir, prompt),
        speaker=prompt.variant,
        text="".join(prompt.sentence),
        pinyin=_pinyin(prompt.sentence),
        split=prompt.split,
    )


def _pinyin(sentence: script.Sentence) -> str:
    return " ".join(syllable for word in sentence for syllable in pronunciation.read(word))
