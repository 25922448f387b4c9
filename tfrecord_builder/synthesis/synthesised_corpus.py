"""The directory of a synthesised corpus: settings (written first), recordings, manifest (written last)."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.data import manifest
from tfrecord_builder.program import config_flags, config_json
from tfrecord_builder.storage import files, locks
from tfrecord_builder.synthesis import prompts

_SETTINGS_FILE = "synthesis.json"


@dataclasses.dataclass(frozen=True)
class OutputConfig(config_flags.Checked):
    """Settings that do not affect the corpus's contents: where it is written, and what runs the synthesis."""

    output_dir: str = config_flags.setting("", "directory to write the corpus to", required=True, local=True)
    num_workers: Optional[int] = config_flags.setting(None, "processes; default: one per core", minimum=1)
    runner: str = config_flags.setting(dispatch.LOCAL, dispatch.HELP)


@contextlib.contextmanager
def claim(
    output_dir: str,
    config: config_flags.Checked,
    planned: Sequence[prompts.Prompt],
    engine: prompts.SpeechEngine,
) -> Iterator[None]:
    """Creates and locks the output directory, and writes the settings and a digest of the plan to it.

    Raises errors.UserError if another synthesis holds the lock, or the directory contains other files or a
    corpus with different settings or prompts.
    """
    os.makedirs(output_dir, exist_ok=True)
    busy = f"--output_dir: another synthesis is writing to {output_dir}; wait until it ends."
    with locks.exclusive(output_dir, busy):
        _write_settings(output_dir, config, planned, engine)
        yield


def _write_settings(output_dir: str, config, planned, engine) -> None:
    path = os.path.join(output_dir, _SETTINGS_FILE)
    settings = {**config_json.to_json_dict(config), "plan_sha256": prompts.fingerprint(planned, engine)}
    del settings["text_dir"]  # the digest of the plan covers the text
    expected = json.dumps(settings, indent=2, sort_keys=True)
    if not os.path.exists(path):
        if os.listdir(output_dir):
            raise errors.UserError(
                f"--output_dir: {output_dir} contains files but no {_SETTINGS_FILE}, so it is not a "
                "synthesised corpus; choose an empty or a new directory."
            )
        files.write_text(path, expected)
    with open(path, encoding="utf-8", errors="replace") as file:
        existing = file.read()
    if existing != expected:
        raise errors.UserError(
            "--output_dir: the corpus there was built from different settings, sentences, pinyin or voices: "
            f"{path} is {' '.join(existing.split())}, expected {' '.join(expected.split())}; remove the "
            "directory or choose another one."
        )


def write_manifest(output_dir: str, spoken: Sequence[prompts.Prompt]) -> None:
    """Writes manifest.tsv, which lists the recordings of these prompts."""
    utterances = []
    for prompt in spoken:
        text, pinyin = "".join(map("".join, prompt.phrases)), " ".join(prompt.pinyin)
        audio, speaker = prompt.recording(output_dir), prompt.speaker.name
        utterances.append(manifest.Utterance(prompt.utterance_id, audio, speaker, text, pinyin, prompt.split))
    with files.writing(os.path.join(output_dir, manifest.MANIFEST_FILE)) as temporary:
        manifest.write_manifest(temporary, utterances)
