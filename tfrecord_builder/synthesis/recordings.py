"""Synthesises recordings, each speaker in a process of its own, because engines keep hidden state.

After any end, also a kill, the processes end within the time of one recording.
"""

from __future__ import annotations

import collections
import glob
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
from collections.abc import Sequence
from typing import Optional

import soundfile

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.runtime import cpu
from tfrecord_builder.settings import progress_bar
from tfrecord_builder.storage import files
from tfrecord_builder.synthesis import prompts


def write_recordings(
    output_dir: str, planned: Sequence[prompts.Prompt], engine: prompts.Engine, num_workers: Optional[int]
) -> None:
    """Synthesises the recordings that do not exist yet, and prints the length of all.

    A process speaks some prompts of a speaker (Engine.prompts_per_process), all of them again if a recording
    is missing; num_workers processes run at the same time, or one per core. Raises errors.UserError if one
    failed or was killed; the others are ended at once, and what is finished stays.
    """
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends processes as Ctrl-C does
    by_speaker = collections.defaultdict(list)
    for prompt in planned:
        by_speaker[prompt.speaker.name].append(prompt)
    size = engine.prompts_per_process
    batches = (batch[i : i + size] for batch in by_speaker.values() for i in range(0, len(batch), size))
    missing = [
        batch for batch in batches if not all(os.path.exists(each.recording(output_dir)) for each in batch)
    ]
    _speak_in_processes(missing, output_dir, engine, num_workers or cpu.count_cores())
    seconds = sum(_read_seconds(prompt.recording(output_dir)) for prompt in planned)
    print(f"{output_dir}: {len(planned)} recordings, {seconds / 60:.1f} minutes")


def _read_seconds(path):
    try:
        return soundfile.info(path).duration
    except soundfile.LibsndfileError as error:
        raise errors.UserError(
            f"{path}: is not a WAV file ({error.error_string}), expected a recording; remove it and run the "
            "same command again, which makes what is missing"
        ) from error


def _speak_in_processes(missing, output_dir, engine, num_workers):
    """Whatever is raised ends the running processes."""
    context = multiprocessing.get_context("forkserver")  # a fork of a server that has the imports is cheap
    context.set_forkserver_preload([__name__, type(engine).__module__])
    spoken, running = context.RawArray("l", len(missing)), {}  # each process counts its own
    arguments = [(output_dir, batch, engine, spoken, i) for i, batch in enumerate(missing)][::-1]
    try:
        with progress_bar.ProgressBar(desc="speaking", total=sum(map(len, missing)), unit="utt") as bar:
            while arguments or running:
                while arguments and len(running) < num_workers:
                    process = context.Process(target=_speak, args=arguments.pop(), daemon=True)
                    process.start()
                    running[process.sentinel] = process
                for sentinel in multiprocessing.connection.wait(list(running), timeout=0.5):  # of the bar
                    _check(running.pop(sentinel))
                bar.update(sum(spoken) - bar.n)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.join()
        unfinished = os.path.join(glob.escape(output_dir), "wav", "**", "*.incomplete")
        for path in glob.glob(unfinished, recursive=True):
            os.remove(path)


def _check(process):
    process.join()
    if process.exitcode:
        raise errors.UserError(
            f"synthesise: a speaker's process ended with exit code {process.exitcode}; see above, or pass "
            "fewer --num_workers if memory ran out. The same command continues with what is missing."
        )


def _speak(output_dir, batch, engine, spoken, index):
    """Writes all recordings of a batch, so that a resumed run gives the same bytes; exits with its error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this
    try:
        speak = engine.open()
        for prompt in batch:
            _write_wav(prompt.recording(output_dir), speak(prompt))
            spoken[index] += 1
            if not multiprocessing.parent_process().is_alive():  # it was killed
                return
    except (errors.UserError, OSError) as error:
        sys.exit(f"error: {errors.describe_refusal(error) or error}")


def _write_wav(path, samples):
    # Through memory: soundfile would not tell why the disk refuses it.
    wav = audio_files.encode_wav(samples, prompts.SAMPLE_RATE)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with files.writing(path) as temporary, open(temporary, "wb") as file:
        file.write(wav)
