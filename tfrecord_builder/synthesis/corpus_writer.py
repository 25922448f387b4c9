"""A plan to files: WAVs spoken by several processes, the text, and the manifest last."""

from __future__ import annotations

import concurrent.futures
import json
import multiprocessing
import os
import sys
from collections.abc import Sequence

import numpy as np
import soundfile
import soxr
import tqdm

from tfrecord_builder import config_flags, errors, manifest
from tfrecord_builder.synthesis import corpus_plan, espeak, pronunciation, voices

SAMPLE_RATE = 16000
MANIFEST_FILE = "manifest.tsv"
TEXT_DIR = "text"
_SETTINGS_FILE = "synthesis.json"


def claim(output_dir: str, config: corpus_plan.SynthesisConfig) -> None:
    """Makes the directory and notes the settings in it.

    Raises:
      UserError: a corpus of other settings, or something else, is there.
    """
    os.makedirs(output_dir, exist_ok=True)
    path = os.path.join(output_dir, _SETTINGS_FILE)
    wanted = json.dumps(config_flags.to_json_dict(config), indent=2, sort_keys=True)
    if not os.path.exists(path):
        if os.listdir(output_dir):
            raise errors.UserError(
                f"--output_dir: {output_dir} holds files and no {_SETTINGS_FILE}, expected an empty or a "
                "new directory; choose another one."
            )
        _write(path, wanted)
        return
    with open(path, encoding="utf-8") as file:
        found = file.read()
    if found != wanted:
        raise errors.UserError(
            f"--output_dir: {path} has the settings {_on_one_line(found)}, expected {_on_one_line(wanted)}; "
            "remove the directory or choose another one."
        )


def write_recordings(output_dir: str, plan: corpus_plan.Plan, seed: int, num_workers: int) -> float:
    """Speaks what is not there yet, a voice a process; returns the seconds of the whole corpus."""
    by_variant: dict[str, list[corpus_plan.Recording]] = {}
    for recording in plan.recordings:
        by_variant.setdefault(recording.variant, []).append(recording)
    missing = [
        each for each in by_variant.values() if not all(os.path.exists(_path(output_dir, r)) for r in each)
    ]
    with concurrent.futures.ThreadPoolExecutor(num_workers) as executor:
        jobs = [executor.submit(_speak_in_new_process, output_dir, each, seed) for each in missing]
        done = concurrent.futures.as_completed(jobs)
        for job in tqdm.tqdm(done, "speaking", len(jobs), unit="voice", disable=not sys.stderr.isatty()):
            job.result()
    return sum(soundfile.info(_path(output_dir, recording)).duration for recording in plan.recordings)


def write_tables(output_dir: str, plan: corpus_plan.Plan) -> None:
    """Writes text/*.tsv, then the manifest."""
    os.makedirs(os.path.join(output_dir, TEXT_DIR), exist_ok=True)
    for split, sentences in plan.text.items():
        lines = (f"{''.join(sentence)}\t{_pinyin(sentence)}\n" for sentence in sentences)
        _write(os.path.join(output_dir, TEXT_DIR, f"{split}.tsv"), "hanzi\tpinyin\n" + "".join(lines))
    path = os.path.join(output_dir, MANIFEST_FILE)
    manifest.write_manifest(
        path + ".tmp", [_utterance(output_dir, recording) for recording in plan.recordings]
    )
    os.replace(path + ".tmp", path)


def _speak_in_new_process(output_dir: str, recordings: Sequence[corpus_plan.Recording], seed: int) -> None:
    # eSpeak NG must start afresh (see espeak.py), and a fork of a server that has the imports is cheap.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=_speak, args=(output_dir, recordings, seed))
    process.start()
    process.join()
    if process.exitcode != 0:
        raise errors.UserError(
            f"synthesise: speaking as {recordings[0].variant} ended with code {process.exitcode}, "
            "expected 0; see its message above. What is finished is kept: the same command goes on."
        )


def _speak(output_dir: str, recordings: Sequence[corpus_plan.Recording], seed: int) -> None:
    """Speaks the recordings of one voice, always all of them, so that a resumed run gives the same bytes."""
    speaker = espeak.Speaker()
    voice = voices.make_voice(recordings[0].variant, seed)
    for recording in recordings:
        rng = voices.random_state(seed, recording.utterance_id)
        words_per_minute = voice.words_per_minute + rng.randint(-10, 11)
        speech = speaker.speak(" ".join(pronunciation.spoken(recording.sentence)), voice, words_per_minute)
        resampled = soxr.resample(speech, speaker.sample_rate, SAMPLE_RATE)
        _write_wav(_path(output_dir, recording), voices.record(resampled, SAMPLE_RATE, voice, rng))


def _write_wav(path: str, samples: np.ndarray) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    soundfile.write(path + ".tmp", samples, SAMPLE_RATE, subtype="PCM_16", format="WAV")
    os.replace(path + ".tmp", path)


def _utterance(output_dir: str, recording: corpus_plan.Recording) -> manifest.Utterance:
    return manifest.Utterance(
        utterance_id=recording.utterance_id,
        audio=_path(output_dir, recording),
        speaker=recording.variant,
        text="".join(recording.sentence),
        pinyin=_pinyin(recording.sentence),
        split=recording.split,
    )


def _path(output_dir: str, recording: corpus_plan.Recording) -> str:
    return os.path.join(output_dir, "wav", recording.variant, f"{recording.utterance_id}.wav")


def _pinyin(sentence: corpus_plan.Sentence) -> str:
    return " ".join(syllable for word in sentence for syllable in pronunciation.read(word))


def _on_one_line(settings: str) -> str:
    return " ".join(settings.split())


def _write(path: str, text: str) -> None:
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".tmp", path)
