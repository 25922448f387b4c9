"""Synthesises the demo's corpus: recordings with a manifest, and text for the language model.

    python -m estimator_asr.demo.synthesise --output_dir=demo/corpus [--num_workers=N]

Writes to --output_dir (the same settings give the same bytes, whatever the number of workers):

    wav/<voice>/<id>.wav          16 kHz, 16 bit, mono
    text/{train,dev,test}.tsv     hanzi, pinyin: for `build --corpus=text`
    manifest.tsv                  for `build --corpus=manifest`; written last, when the corpus is complete

An interrupted run continues where it stopped, voice by voice. A directory with a corpus of other settings, or
of other sentences by another version of this program, is refused.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from typing import Optional

from estimator_asr.demo import espeak, grammar, script, synthesis
from tfrecord_builder import errors
from tfrecord_builder.data import manifest
from tfrecord_builder.runtime import cpu
from tfrecord_builder.settings import config_flags, config_json, program
from tfrecord_builder.storage import files

_SETTINGS_FILE = "synthesis.json"


@dataclasses.dataclass(frozen=True)
class OutputConfig(config_flags.Checked):
    """Output directory and number of workers; neither changes a byte of the corpus."""

    output_dir: str = config_flags.setting("", "directory to write the corpus to", required=True, local=True)
    num_workers: Optional[int] = config_flags.setting(
        None, "number of voices that speak at the same time; one per core if empty", minimum=1
    )


def main(config: script.SynthesisConfig, output: OutputConfig) -> None:
    """Writes the corpus."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends the voices as Ctrl-C does
    espeak.check_installed()
    plan = script.make_plan(config)
    claim(output.output_dir, config, plan)
    num_workers = output.num_workers or cpu.count_cores()
    seconds = synthesis.write_recordings(output.output_dir, plan, config.synthesis_seed, num_workers)
    _write_tables(output.output_dir, plan)
    print(f"{output.output_dir}: {len(plan.prompts)} recordings, {seconds / 60:.1f} minutes")


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
        existing = file.read()
    if existing != expected:
        raise errors.UserError(
            "--output_dir: the corpus there was built from different settings, sentences, pinyin or voices: "
            f"{path} is {' '.join(existing.split())}, expected {' '.join(expected.split())}; remove the "
            "directory or choose another one."
        )


def _write_tables(output_dir, plan):
    """Writes text/*.tsv, then the manifest."""
    text_dir = os.path.join(output_dir, "text")
    os.makedirs(text_dir, exist_ok=True)
    for split, sentences in plan.text.items():
        lines = (f"{''.join(sentence)}\t{_pinyin(sentence)}\n" for sentence in sentences)
        files.write_text(os.path.join(text_dir, f"{split}.tsv"), "hanzi\tpinyin\n" + "".join(lines))
    utterances = [
        manifest.Utterance(
            utterance_id=prompt.utterance_id,
            audio=prompt.recording(output_dir),
            speaker=prompt.variant,
            text="".join(prompt.sentence),
            pinyin=_pinyin(prompt.sentence),
            split=prompt.split,
        )
        for prompt in plan.prompts
    ]
    with files.writing(os.path.join(output_dir, "manifest.tsv")) as temporary:
        manifest.write_manifest(temporary, utterances)


def _pinyin(sentence):
    return " ".join(syllable for word in sentence for syllable in grammar.read(word))


if __name__ == "__main__":
    program.run(main, script.SynthesisConfig, OutputConfig)
