"""Measures how exact align's times of syllables are, in recordings whose times are known.

    python -m pip install espeakng-loader==0.2.4
    python -m benchmarks.boundaries --saved_model=EXPORT --corpus_dir=CORPUS [--words] [--minutes=10]

CORPUS has a manifest.tsv with pinyin; rows of other splits than train are used. eSpeak NG speaks their
syllables, each as a word of its own, in the voices of --seed, and reports when it begins each one. With
--words, the recordings in CORPUS themselves, of single syllables or words, are cut to their speech (see
speech_bounds) and joined with pauses of 0 to 0.3 s; then only the begin and the end of each recording are
known.

Emissions are the frames in which CTC emits a syllable; times are those that align writes. The bars hold for
begins.
"""

from __future__ import annotations

import ctypes
import dataclasses
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks import bars, machine

machine.load_libraries()

import numpy as np
import soundfile
import soxr
from rapidfuzz.distance import Levenshtein

from benchmarks import speech_bounds
from estimator_asr import align
from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.alignment import frame_scores, segments, time_files
from estimator_asr.serving.transcripts import recordings, transcriber
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.corpora import tables
from tfrecord_builder.labels import normalisation
from tfrecord_builder.program import config_flags, program
from tfrecord_builder.synthesis import espeak

RATE = 16000
_TOLERANCE = 60  # milliseconds
_WORD_EVENT = 1  # espeakEVENT_WORD


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model and the recordings."""

    saved_model: str = config_flags.setting(
        "", "export directory, or one version in it", required=True, local=True
    )
    corpus_dir: str = config_flags.setting("", "corpus with manifest.tsv", required=True, local=True)
    words: bool = config_flags.setting(
        False, "join the recordings of single words instead of synthesising the text"
    )
    minutes: float = config_flags.setting(10.0, "length of the joined recording", positive=True)
    seed: int = config_flags.setting(1, "random seed")


class Syllable(NamedTuple):
    """A syllable with its begin and end in seconds, NaN where they are not known."""

    token: str
    start: float
    end: float


class _Event(ctypes.Structure):
    """espeak_EVENT of eSpeak NG's speak_lib.h."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("type", "identifier", "text_position", "length")),
        *((name, ctypes.c_int) for name in ("audio_position", "sample")),
        ("user_data", ctypes.c_void_p),
        ("name", ctypes.c_char * 8),
    ]


class TimedSynthesiser(espeak.EspeakSynthesiser):
    """eSpeak NG, with the sample in which each word begins."""

    def __init__(self):
        super().__init__()
        self.starts: list[int] = []

    def _collect(self, samples, num_samples: int, events) -> int:
        event = ctypes.cast(events, ctypes.POINTER(_Event))
        index = 0
        while event[index].type:
            if event[index].type == _WORD_EVENT:
                self.starts.append(event[index].sample)
            index += 1
        return super()._collect(samples, num_samples, events)


def main(config: BenchmarkConfig) -> int:
    version = recogniser.load_version(recogniser.find_version(config.saved_model))
    rng = np.random.default_rng(config.seed)
    with tempfile.TemporaryDirectory() as directory:
        audio, text = (os.path.join(directory, name) for name in ("joined.wav", "joined.txt"))
        syllables = _record(config, rng, audio, text)
        recording = recordings.RecordingFile(audio, "joined", text)
        transcript = transcriber.transcribe(frame_scores.FrameScorer([version]), recording, RATE)
        result = segments.make_rows(version.info.token_type, recording, transcript)
    rows = [row for row in result["rows"] if "words" in row and row["score"] >= align.AlignConfig.min_score]
    tokens = [token for row in rows for _, tokens in row["words"] for token in tokens]
    names, emissions = [token[0] for token in tokens], [token[1:3] for token in tokens]
    pairs = list(_pair([syllable.token for syllable in syllables], names))
    print(f"{len(syllables)} syllables, {len(pairs)} in utterances that align keeps")
    if not pairs:
        raise errors.UserError(
            f"--saved_model recognises no words of {config.corpus_dir}; train on such speech"
        )
    known = np.array([syllables[i][1:] for i, _ in pairs])
    times = [(span["start"], span["end"]) for span in time_files.find_times(emissions)]
    _show("emissions", 1000 * (np.array(emissions)[[j for _, j in pairs]] / 1000 - known))
    off = 1000 * (np.array(times)[[j for _, j in pairs]] - known)
    _show("times", off)
    begins = np.abs(off[~np.isnan(off[:, 0]), 0])
    return bars.show(
        [
            bars.Bar("median error of begins, ms", np.median(begins), maximum=20),
            bars.Bar("begins within 60 ms, %", 100 * np.mean(begins <= _TOLERANCE), minimum=95),
        ]
    )


def _record(config, rng, audio_path, text_path) -> list[Syllable]:
    """Writes the joined recording and its text; returns its syllables."""
    rows = [row for row in tables.list_manifest(config.corpus_dir) if row.split != "train" and row.pinyin]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    parts, texts, syllables, position = [], [], [], 0
    for waveform, row, starts, ends in (_cut if config.words else _speak)(rows, config.seed):
        pause = np.zeros(int(rng.uniform(0, 0.3 if config.words else 1.5) * RATE), np.float32)
        offset = (position + len(pause)) / RATE
        syllables += [
            Syllable(token, offset + start, offset + end)
            for token, start, end in zip(row.pinyin.split(), starts, ends)
        ]
        parts += [pause, waveform]
        texts.append(f"{normalisation.normalise(row.text)}。\n")
        position += len(pause) + len(waveform)
        if position > 60 * config.minutes * RATE:
            break
    joined = np.concatenate([*parts, np.zeros(RATE // 2, np.float32)])
    soundfile.write(audio_path, joined + 1e-4 * rng.normal(size=len(joined)), RATE, subtype="PCM_16")
    with open(text_path, "w", encoding="utf-8") as file:
        file.writelines(texts)
    return syllables


def _speak(rows, seed) -> Iterator[tuple]:
    """Yields waveform, row, and begins and ends of the syllables, as eSpeak NG reports them."""
    engine, synthesiser = espeak.EspeakEngine(seed=seed), TimedSynthesiser()
    voices = engine.make_speakers(espeak.VARIANTS, len(rows))
    for number, row in enumerate(rows):
        voice = voices[number % len(voices)]
        synthesiser.starts.clear()
        tokens = engine.pronounce([normalisation.normalise(row.text)], row.pinyin.split())
        speech = synthesiser.speak(" ".join(tokens), voice, voice.words_per_minute)
        if len(synthesiser.starts) != len(tokens):
            continue  # eSpeak NG has read some syllables as one word
        _, stop = speech_bounds.find_speech(speech, synthesiser.sample_rate)
        starts = np.array(synthesiser.starts) / synthesiser.sample_rate
        ends = [*starts[1:], stop / synthesiser.sample_rate]
        waveform = soxr.resample(speech, synthesiser.sample_rate, RATE)
        yield 0.3 * waveform / np.abs(waveform).max(), row, starts, ends


def _cut(rows, seed) -> Iterator[tuple]:
    """Yields the loud part of each recording, its row, and the begin and the end of the recording."""
    for row in rows:
        waveform = audio_files.read_audio(row.audio, RATE)
        start, stop = speech_bounds.find_speech(waveform, RATE)
        unknown = [np.nan] * (len(row.pinyin.split()) - 1)
        speech = 0.3 * waveform[start:stop] / np.abs(waveform).max()
        yield speech, row, [0.0, *unknown], [*unknown, (stop - start) / RATE]


def _pair(tokens: Sequence[str], aligned: Sequence[str]) -> Iterator[tuple[int, int]]:
    for block in Levenshtein.editops(tokens, aligned).as_matching_blocks():
        yield from ((block.a + i, block.b + i) for i in range(block.size))


def _show(name: str, off: np.ndarray) -> None:
    """Prints the errors of begins and ends, float [num_syllables, 2], in milliseconds."""
    for side, values in zip(("begins", "ends"), off.T):
        values = values[~np.isnan(values)]
        size = np.abs(values)
        print(
            f"{name:10} {side:7} median error {np.median(size):5.0f} ms, 95th percentile "
            f"{np.percentile(size, 95):5.0f} ms, {np.mean(size <= _TOLERANCE):6.1%} within {_TOLERANCE} ms; "
            f"{np.median(values):+5.0f} ms in the median; {len(values)} known"
        )


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
