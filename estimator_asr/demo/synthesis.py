"""Synthesises the recordings of a plan, each voice in its own process, because eSpeak NG keeps hidden state.

After any end, also a kill, the processes of the voices end within the time of one recording.
"""

from __future__ import annotations

import glob
import io
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys

import soundfile
import soxr
import tqdm

from estimator_asr.demo import espeak, grammar, script, voices
from tfrecord_builder import errors
from tfrecord_builder.storage import files

SAMPLE_RATE = 16000


def write_recordings(output_dir: str, plan: script.Plan, seed: int, num_workers: int) -> float:
    """Synthesises the recordings that do not exist yet; returns the seconds of the whole corpus.

    All recordings of a voice are synthesised again if one of them is missing; num_workers voices speak at the
    same time.

    Raises:
        errors.UserError: a voice failed or was killed; the others are ended at once, and what is finished
            stays.
    """
    by_variant: dict[str, list[script.Prompt]] = {}
    for prompt in plan.prompts:
        by_variant.setdefault(prompt.variant, []).append(prompt)
    missing = [
        prompts
        for prompts in by_variant.values()
        if not all(os.path.exists(prompt.recording(output_dir)) for prompt in prompts)
    ]
    options = {"unit": "voice", "disable": not sys.stderr.isatty()}
    with tqdm.tqdm(desc="speaking", total=len(missing), **options) as bar:
        _speak_in_processes(missing, output_dir, seed, num_workers, bar.update)
    return sum(soundfile.info(prompt.recording(output_dir)).duration for prompt in plan.prompts)


def _speak_in_processes(missing, output_dir, seed, num_workers, on_finished):
    """Calls on_finished after each voice; whatever is raised ends the running processes."""
    context = multiprocessing.get_context("forkserver")  # a fork of a server that has the imports is cheap
    context.set_forkserver_preload([__name__])
    arguments = [(output_dir, prompts, seed) for prompts in reversed(missing)]
    running = {}
    try:
        while arguments or running:
            while arguments and len(running) < num_workers:
                process = context.Process(target=_speak, args=arguments.pop(), daemon=True)
                process.start()
                running[process.sentinel] = process
            for sentinel in multiprocessing.connection.wait(list(running)):
                _check(running.pop(sentinel))
                on_finished()
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.join()
        unfinished = os.path.join(glob.escape(output_dir), "wav", "*", "*.incomplete") if running else ""
        for path in glob.glob(unfinished):
            os.remove(path)


def _check(process):
    process.join()
    if process.exitcode:
        raise errors.UserError(
            f"synthesise: the process of a voice ended with exit code {process.exitcode}; see above, or pass "
            "fewer --num_workers if memory ran out. The same command continues with what is missing."
        )


def _speak(output_dir, prompts, seed):
    """Writes all recordings of a voice, so that a resumed run gives the same bytes; exits with its error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends this
    try:
        speaker, voice = espeak.Speaker(), voices.make_voice(prompts[0].variant, seed)
        for prompt in prompts:
            _write_wav(prompt.recording(output_dir), _record(speaker, voice, prompt, seed))
            if not multiprocessing.parent_process().is_alive():  # it was killed
                return
    except errors.UserError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        sys.exit(f"error: {errors.describe_refusal(error)}")


def _record(speaker, voice, prompt, seed):
    rng = voices.random_state(seed, prompt.utterance_id)
    words_per_minute = voice.words_per_minute + rng.randint(-10, 11)
    speech = speaker.speak(" ".join(grammar.spoken(prompt.sentence)), voice, words_per_minute)
    resampled = soxr.resample(speech, speaker.sample_rate, SAMPLE_RATE)
    return voices.record(resampled, SAMPLE_RATE, voice, rng)


def _write_wav(path, samples):
    # Through memory: soundfile would not tell why the disk refuses it.
    wav = io.BytesIO()
    soundfile.write(wav, samples, SAMPLE_RATE, subtype="PCM_16", format="WAV")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with files.writing(path) as temporary, open(temporary, "wb") as file:
        file.write(wav.getbuffer())
