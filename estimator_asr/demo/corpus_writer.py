"""The directory of a corpus: what it is a corpus of, the text, and the manifest last."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from estimator_asr.demo import pronunciation, script
from tfrecord_builder import config_flags, config_json, errors, manifest

MANIFEST_FILE = "manifest.tsv"
TEXT_DIR = "text"
_SETTINGS_FILE = "synthesis.json"
_PLAN = "plan_sha256"


@dataclasses.dataclass(frozen=True)
class OutputConfig:
    """Where to write the corpus, and how many voices speak at a time: neither changes a byte."""

    output_dir: str = config_flags.setting("", "directory to write the corpus to")
    num_workers: Optional[int] = config_flags.setting(
        None, "voices to speak at a time; one a core if not given", minimum=1
    )

    def __post_init__(self):
        config_flags.validate(self)
        if not self.output_dir:
            raise errors.UserError(
                "--output_dir: it is missing, expected a directory; pass --output_dir=DIR."
            )


def claim(output_dir: str, config: script.SynthesisConfig, plan: script.Plan) -> None:
    """Makes the directory and notes the settings and a digest of the plan in it.

    Raises:
      UserError: a corpus of other settings or of another plan, or something else, is there, or it cannot be
        written to.
    """
    path = os.path.join(output_dir, _SETTINGS_FILE)
    wanted = {**config_json.to_json_dict(config), _PLAN: script.fingerprint(plan, config.synthesis_seed)}
    with saying_what_cannot_be_written(output_dir):
        os.makedirs(output_dir, exist_ok=True)
        if os.path.exists(path):
            _check_same(path, wanted)
        elif os.listdir(output_dir):
            raise errors.UserError(
                f"--output_dir: {output_dir} holds files and no {_SETTINGS_FILE}, expected an empty or a "
                "new directory; choose another one."
            )
        else:
            _write(path, _to_text(wanted))


def _check_same(path: str, wanted: Mapping[str, Any]) -> None:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = _parse(text)
    if found == wanted:
        return
    remedy = "remove the directory or choose another one."
    if {**found, _PLAN: wanted[_PLAN]} == wanted:
        raise errors.UserError(
            f"--output_dir: {path} is of other sentences, pinyin or voices ({_PLAN} {found.get(_PLAN)}), "
            f"expected those of this version of the program ({wanted[_PLAN]}); {remedy}"
        )
    raise errors.UserError(
        f"--output_dir: {path} has the settings {_on_one_line(text)}, "
        f"expected {_on_one_line(_to_text(wanted))}; {remedy}"
    )


def _parse(text: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def write_tables(output_dir: str, plan: script.Plan) -> None:
    """Writes text/*.tsv, then the manifest; raises UserError where that cannot be done."""
    with saying_what_cannot_be_written(output_dir):
        os.makedirs(os.path.join(output_dir, TEXT_DIR), exist_ok=True)
        for split, sentences in plan.text.items():
            lines = (f"{''.join(sentence)}\t{_pinyin(sentence)}\n" for sentence in sentences)
            _write(os.path.join(output_dir, TEXT_DIR, f"{split}.tsv"), "hanzi\tpinyin\n" + "".join(lines))
        utterances = [_utterance(output_dir, recording) for recording in plan.recordings]
        with replacing(os.path.join(output_dir, MANIFEST_FILE)) as temporary:
            manifest.write_manifest(temporary, utterances)


def recording_path(output_dir: str, recording: script.Recording) -> str:
    """Returns where the WAV of a recording lies."""
    return os.path.join(output_dir, "wav", recording.variant, f"{recording.utterance_id}.wav")


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Yields a name to write to; what lies there then becomes path, or is removed if something is raised.

    The name is no other process's, so that two of them never write one file.
    """
    temporary = temporary_name(path, os.getpid())
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(temporary)
        raise


def temporary_name(path: str, process_id: int) -> str:
    """Returns under which name a process writes a file before it is whole."""
    return f"{path}.{process_id}.tmp"


@contextlib.contextmanager
def saying_what_cannot_be_written(output_dir: str) -> Iterator[None]:
    """Turns an OSError, of a path or of a full disk, into the sentence of a UserError."""
    try:
        yield
    except OSError as error:
        raise errors.UserError(
            f"--output_dir: {error.filename or output_dir} cannot be written ({error.strerror}), expected a "
            "directory with room for the corpus; choose another, or make room and call this again."
        ) from error


def _utterance(output_dir: str, recording: script.Recording) -> manifest.Utterance:
    return manifest.Utterance(
        utterance_id=recording.utterance_id,
        audio=recording_path(output_dir, recording),
        speaker=recording.variant,
        text="".join(recording.sentence),
        pinyin=_pinyin(recording.sentence),
        split=recording.split,
    )


def _pinyin(sentence: script.Sentence) -> str:
    return " ".join(syllable for word in sentence for syllable in pronunciation.read(word))


def _to_text(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, indent=2, sort_keys=True)


def _on_one_line(settings: str) -> str:
    return " ".join(settings.split())


def _write(path: str, text: str) -> None:
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
