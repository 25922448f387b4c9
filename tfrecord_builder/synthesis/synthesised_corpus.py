"""Writes a synthesised corpus: first the settings, then the recordings, and finally the manifest.

building.engines distributes units of recordings to workers. The plan alone determines which prompts, all by
one speaker, form a unit. Speech synthesisers keep hidden state, so each unit gets its own process.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.building import resumable
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.data import manifest
from tfrecord_builder.program import config_flags, config_json
from tfrecord_builder.storage import files, locks
from tfrecord_builder.synthesis import prompts

_SETTINGS_FILE = "synthesis.json"
UNITS_DIR = ".units"  # kept in the corpus, so that a repeated command does not start all over again
_HEADER_BYTES, _BYTES_PER_SECOND = 44, 2 * prompts.SAMPLE_RATE  # WAV files with 16 bits per sample


@dataclasses.dataclass(frozen=True)
class OutputConfig(config_flags.Checked):
    """Settings that do not affect the corpus's contents: the output directory and the workers."""

    output_dir: str = config_flags.setting("", "directory to write the corpus to", required=True, local=True)
    num_workers: Optional[int] = config_flags.setting(
        None, "number of processes; default: one per core", minimum=1
    )
    runner: str = config_flags.setting(dispatch.LOCAL, dispatch.HELP)


@dataclasses.dataclass(frozen=True)
class PromptUnit:
    """Prompts by one speaker; the file named `file` lists the sizes of their recordings in bytes."""

    file: str
    num_items: int
    prompts: Sequence[prompts.Prompt]


@dataclasses.dataclass(frozen=True)
class PromptWriter(resumable.UnitWriter):
    """Writes units of recordings; if one is missing, its whole unit is repeated to get the same bytes."""

    output_dir: str
    engine: prompts.SpeechEngine
    libraries: tuple[str, ...]

    def fingerprint(self, unit: PromptUnit) -> str:
        return prompts.fingerprint(unit.prompts, self.engine)

    def find_finished(self, unit: PromptUnit) -> Optional[resumable.ShardReceipt]:
        """Returns a finished unit's ShardReceipt; None if a recording is missing or has the wrong size."""
        receipt = super().find_finished(unit)
        with contextlib.suppress(OSError, ValueError):
            sizes = [os.path.getsize(prompt.recording(self.output_dir)) for prompt in unit.prompts]
            listed_sizes = config_json.parse(files.read_text(os.path.join(self.directory, unit.file)))
            return receipt if listed_sizes == sizes else None

    def make(self, unit: PromptUnit, path: str, on_progress: resumable.OnProgress) -> resumable.ShardReceipt:
        """Writes a unit's recordings and, to `path`, the list of their sizes in bytes."""
        sizes = []
        for size in _speak(unit, self.engine, self.output_dir):
            sizes.append(size)
            on_progress(len(sizes), 0)
        files.write_text(path, json.dumps(sizes))
        return resumable.ShardReceipt(unit.file, len(sizes))


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
    del settings["text_dir"]  # not needed, because plan_sha256 covers the text
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
            f"--output_dir: the corpus in {output_dir} was built from different settings, sentences, pinyin "
            f"or voices: {path} is {' '.join(existing.split())}, expected {' '.join(expected.split())}; "
            "remove the directory or choose another one."
        )


def write_recordings(
    output_dir: str, planned: Sequence[prompts.Prompt], engine: prompts.SpeechEngine, run: dispatch.RunUnits
) -> None:
    """Synthesises the unfinished units; prints the number and the total duration of all recordings."""
    directory = os.path.join(output_dir, UNITS_DIR)
    files.make_directory(directory)
    units = list(_cut(planned, engine.prompts_per_process))
    run(units, PromptWriter(directory, output_dir, engine, (engine.library,)), "speaking")
    for path in files.find_files(output_dir, (".incomplete",)):  # left by a process that was killed
        files.remove(path)
    sizes = [os.path.getsize(prompt.recording(output_dir)) - _HEADER_BYTES for prompt in planned]
    print(f"{output_dir}: {len(planned)} recordings, {sum(sizes) / _BYTES_PER_SECOND / 60:.1f} minutes")


def write_manifest(output_dir: str, spoken: Sequence[prompts.Prompt]) -> None:
    """Writes manifest.tsv, which lists the recordings of these prompts."""
    utterances = []
    for prompt in spoken:
        audio, speaker, pinyin = prompt.recording(output_dir), prompt.speaker.name, " ".join(prompt.pinyin)
        row = (prompt.utterance_id, audio, speaker, prompt.text, pinyin, prompt.split)
        utterances.append(manifest.Utterance(*row))
    with files.writing(os.path.join(output_dir, manifest.MANIFEST_FILE)) as temporary:
        manifest.write_manifest(temporary, utterances)


def _cut(planned: Sequence[prompts.Prompt], size: int) -> Iterator[PromptUnit]:
    by_speaker = collections.defaultdict(list)
    for prompt in planned:
        by_speaker[prompt.speaker.name].append(prompt)
    for name, planned_prompts in by_speaker.items():
        for start in range(0, len(planned_prompts), size):
            part = planned_prompts[start : start + size]
            yield PromptUnit(f"{name}.{start}", len(part), part)


def _speak(unit: PromptUnit, engine: prompts.SpeechEngine, output_dir: str) -> Iterator[int]:
    """Synthesises a unit in a new process; yields the size in bytes of each recording once it is written.

    The process has its own session, so that a signal to a process group does not interrupt a recording.
    If the worker dies, the process ends after the current recording.
    """
    code = f"import sys; from {__name__} import speak_here; speak_here(sys.argv[1])"
    command = [sys.executable, "-c", code, output_dir]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as process:
        with contextlib.suppress(BrokenPipeError), process.stdin:
            pickle.dump((unit.prompts, engine), process.stdin)
        for message in map(config_json.parse, process.stdout):
            if isinstance(message, str):
                raise errors.UserError(message)
            yield message
    if process.returncode:
        raise errors.UserError(
            f"synthesise: the process that writes {unit.file} ended with exit code {process.returncode}; see "
            "its messages above, or use fewer workers if memory ran out. Run the same command again to "
            "continue."
        )


def speak_here(output_dir: str) -> None:
    """Synthesises prompts from standard input; prints the size of each recording, or an error, as JSON."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ends the process if nothing reads its output
    planned, engine = pickle.load(sys.stdin.buffer)
    try:
        speak = engine.open()
        for prompt in planned:
            print(_write_wav(prompt.recording(output_dir), speak(prompt)), flush=True)
    except (errors.UserError, OSError) as error:
        print(json.dumps(errors.describe_refusal(error) or str(error)))


def _write_wav(path, samples):
    # Encoded in memory, because soundfile does not say why a file cannot be written.
    wav = audio_files.encode_wav(samples, prompts.SAMPLE_RATE)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with files.writing(path) as temporary, open(temporary, "wb") as file:
        file.write(wav)
    return len(wav)
