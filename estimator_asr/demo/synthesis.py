"""A plan to WAVs: a process a voice, because eSpeak NG must start afresh for each (see espeak.py).

However this ends, no process outlives it for longer than a recording takes.
"""

from __future__ import annotations

import contextlib
import glob
import io
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
from collections.abc import Collection, Iterator, Sequence
from multiprocessing.process import BaseProcess

import numpy as np
import soundfile
import soxr
import tqdm

from estimator_asr.demo import corpus_writer, espeak, pronunciation, script, voices
from tfrecord_builder import errors

SAMPLE_RATE = 16000


def write_recordings(output_dir: str, plan: script.Plan, seed: int, num_workers: int) -> float:
    """Speaks what is not there yet.

    Args:
      output_dir: where to, see corpus_writer.recording_path.
      plan: all recordings; those of a voice are spoken again if one of them is missing.
      seed: decides voices and noise.
      num_workers: voices that speak at a time.

    Returns:
      The seconds of the whole corpus.

    Raises:
      UserError: a voice failed or was killed; the others are ended at once, and what is finished stays.
    """
    paths = {each: corpus_writer.recording_path(output_dir, each) for each in plan.recordings}
    by_variant: dict[str, list[script.Recording]] = {}
    for recording in plan.recordings:
        by_variant.setdefault(recording.variant, []).append(recording)
    missing = [each for each in by_variant.values() if not all(os.path.exists(paths[r]) for r in each)]
    with contextlib.closing(_speak_in_processes(missing, output_dir, seed, num_workers)) as spoken:
        for _ in tqdm.tqdm(spoken, "speaking", len(missing), unit="voice", disable=not sys.stderr.isatty()):
            pass
    return sum(soundfile.info(path).duration for path in paths.values())


def _speak_in_processes(
    missing: Sequence[Sequence[script.Recording]], output_dir: str, seed: int, num_workers: int
) -> Iterator[None]:
    """Yields after each voice; ends those that are speaking when it is closed or something is raised."""
    waiting = list(reversed(missing))
    running: dict[int, BaseProcess] = {}  # by what gets ready when it ends
    try:
        while waiting or running:
            while waiting and len(running) < num_workers:
                process = _start(output_dir, waiting.pop(), seed)
                running[process.sentinel] = process
            for sentinel in multiprocessing.connection.wait(list(running)):
                _check(running[sentinel])
                del running[sentinel]
                yield
    finally:
        _end(running.values(), output_dir)


def _start(output_dir: str, recordings: Sequence[script.Recording], seed: int) -> BaseProcess:
    context = multiprocessing.get_context("forkserver")  # a fork of a server that has the imports is cheap
    context.set_forkserver_preload([__name__])
    name = f"speaking as {recordings[0].variant}"
    process = context.Process(target=_speak, args=(output_dir, recordings, seed), name=name, daemon=True)
    process.start()
    return process


def _check(process: BaseProcess) -> None:
    process.join()
    if process.exitcode:
        raise errors.UserError(
            f"synthesise: {process.name} {_describe_failure(process.exitcode)}. "
            "What is finished is kept: the same command goes on."
        )


def _describe_failure(exit_code: int) -> str:
    if exit_code > 0:
        return f"ended with code {exit_code}, expected 0; see its message above"
    name = f"signal {-exit_code} ({signal.strsignal(-exit_code)})"
    return f"was killed by {name}, expected to last; pass fewer --num_workers if memory ran out"


def _end(processes: Collection[BaseProcess], output_dir: str) -> None:
    """Ends the processes and removes the files that they had not finished."""
    anywhere = os.path.join(glob.escape(output_dir), "wav", "*", "*")
    for process in processes:
        process.terminate()
    for process in processes:
        process.join()
        for path in glob.glob(corpus_writer.temporary_name(anywhere, process.pid)):
            with contextlib.suppress(FileNotFoundError):  # finished at the same moment
                os.remove(path)


def _speak(output_dir: str, recordings: Sequence[script.Recording], seed: int) -> None:
    """Speaks as one voice; what a user can mend becomes a line on standard error and exit code 1."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this
    try:
        with corpus_writer.saying_what_cannot_be_written(output_dir):
            for recording, samples in _record(recordings, seed):
                _write_wav(corpus_writer.recording_path(output_dir, recording), samples)
                if not multiprocessing.parent_process().is_alive():  # it was killed
                    return
    except errors.UserError as error:
        sys.exit(f"error: {error}")


def _record(
    recordings: Sequence[script.Recording], seed: int
) -> Iterator[tuple[script.Recording, np.ndarray]]:
    """Yields all recordings of one voice, always all of them, so that a resumed run gives the same bytes."""
    speaker = espeak.Speaker()
    voice = voices.make_voice(recordings[0].variant, seed)
    for recording in recordings:
        rng = voices.random_state(seed, recording.utterance_id)
        words_per_minute = voice.words_per_minute + rng.randint(-10, 11)
        speech = speaker.speak(" ".join(pronunciation.spoken(recording.sentence)), voice, words_per_minute)
        resampled = soxr.resample(speech, speaker.sample_rate, SAMPLE_RATE)
        yield recording, voices.record(resampled, SAMPLE_RATE, voice, rng)


def _write_wav(path: str, samples: np.ndarray) -> None:
    # Through memory: soundfile would not say why a disk does not take it.
    wav = io.BytesIO()
    soundfile.write(wav, samples, SAMPLE_RATE, subtype="PCM_16", format="WAV")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with corpus_writer.replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(wav.getbuffer())
