"""Measures how well align cuts joined recordings, and how well it notices text that was not said.

    python -m pip install -r benchmarks/requirements.txt    # ctc-segmentation needs a C compiler
    python -m benchmarks.alignment --saved_model=EXPORT --corpus_dir=CORPUS [--minutes=30]

CORPUS has a manifest.tsv; its recordings of other splits than train are joined, with pauses of 0 to 3 s, of
which a third are noise and a third are music. The text is aligned as it is, and then spoiled: 5 % of the
sentences are left out, 5 % are doubled, 5 % are exchanged with the next one, and 5 % of the characters are
replaced. A sentence is right if its utterance begins and ends in the pauses around it, or at most 0.2 s from
them. The peer aligns the same log probabilities; it keeps the best sentences, as many as align keeps.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import bars, machine

machine.load_libraries()

import numpy as np
import soundfile

from benchmarks import noise, speech_bounds
from estimator_asr import align
from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.alignment import forced_alignment, frame_scores, segments, texts
from estimator_asr.serving.transcripts import recordings, transcriber
from tfrecord_builder.audio import audio_files
from tfrecord_builder.corpora import tables
from tfrecord_builder.labels import normalisation
from tfrecord_builder.program import config_flags, program

RATE = 16000
_TOLERANCE = 0.2  # seconds


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model and the recordings."""

    saved_model: str = config_flags.setting(
        "", "export directory, or one version in it", required=True, local=True
    )
    corpus_dir: str = config_flags.setting("", "corpus with manifest.tsv", required=True, local=True)
    minutes: float = config_flags.setting(30.0, "length of the joined recording", positive=True)
    seed: int = config_flags.setting(1, "random seed")


class Spoken(NamedTuple):
    """An utterance in the joined recording: its text, and seconds to the begin and the end of its speech."""

    text: str
    start: float
    end: float


class Written(NamedTuple):
    """A sentence of the text, and the utterance in which it is said; `is_spoiled` if it is not said there."""

    text: str
    utterance: int
    is_spoiled: bool = False


class Result(NamedTuple):
    """Counts of sentences, and how many seconds beside its pauses each kept utterance was cut."""

    num_good: int
    num_good_lost: int
    num_spoiled: int
    num_spoiled_kept: int
    distances: list[float]

    def print(self, name: str) -> None:
        kept = np.array(self.distances)
        print(
            f"{name:24} {np.mean(kept <= _TOLERANCE):7.2%} of {len(kept)} kept within {_TOLERANCE} s, "
            f"{np.mean(kept):.3f} s on average;  good ones lost {self.num_good_lost} of {self.num_good}; "
            f"spoiled ones kept {self.num_spoiled_kept} of {self.num_spoiled}"
        )


def main(config: BenchmarkConfig) -> int:
    machine.check("ctc_segmentation", "ctc-segmentation")
    rng = np.random.default_rng(config.seed)
    version = recogniser.load_version(recogniser.find_version(config.saved_model))
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "joined.wav")
        spoken = _record(config, rng, path)
        print(f"{len(spoken)} utterances, {spoken[-1].end / 60:.1f} minutes")
        recording = recordings.RecordingFile(path, "joined")
        transcript = transcriber.transcribe(frame_scores.FrameScorer([version]), recording, RATE)
        plain = [Written(utterance.text, i) for i, utterance in enumerate(spoken)]
        return max(
            _compare(transcript, directory, spoken, plain, "as it is"),
            _compare(transcript, directory, spoken, _spoil(plain, rng), "spoiled"),
        )


def _record(config, rng, path) -> list[Spoken]:
    """Writes the joined recording; returns what is said in it."""
    rows = [row for row in tables.list_manifest(config.corpus_dir) if row.split != "train"]
    spoken, parts, position = [], [], 0
    for i in rng.permutation(len(rows)):
        if position > 60 * config.minutes * RATE:
            break
        pause = _make_pause(rng)
        waveform = audio_files.read_audio(rows[i].audio, RATE)
        first, stop = speech_bounds.find_speech(waveform, RATE)
        begin = position + len(pause)
        text = normalisation.normalise(rows[i].text)
        spoken.append(Spoken(text, (begin + first) / RATE, (begin + stop) / RATE))
        parts += [pause, waveform]
        position = begin + len(waveform)
    soundfile.write(path, np.concatenate(parts), RATE, subtype="PCM_16")
    return spoken


def _make_pause(rng) -> np.ndarray:
    count = int(rng.uniform(0, 3) * RATE)
    kind = rng.choice(["silence", "pink", "music"])
    samples = noise.MAKERS[kind](rng, max(count, 2)) if kind != "silence" else rng.normal(size=count)
    level = 10 ** (-60 / 20) if kind == "silence" else 10 ** (rng.uniform(-45, -25) / 20)
    return np.float32(samples * level / max(1e-9, np.sqrt(np.mean(np.square(samples)))))[:count]


def _spoil(plain: Sequence[Written], rng) -> list[Written]:
    characters = sorted({c for sentence in plain for c in sentence.text})
    written: list[Written] = []
    kinds = rng.choice(["", "left out", "doubled", "exchanged"], len(plain), p=[0.85, 0.05, 0.05, 0.05])
    sentences = list(plain)
    for i in np.flatnonzero(kinds == "exchanged"):
        if i + 1 < len(sentences) and kinds[i + 1] == "":
            sentences[i : i + 2] = sentences[i + 1]._replace(is_spoiled=True), sentences[i]
    for sentence, kind in zip(sentences, kinds):
        changed = [rng.choice(characters) if rng.random() < 0.05 else c for c in sentence.text]
        sentence = sentence._replace(text="".join(changed))
        written += [] if kind == "left out" else [sentence]
        written += [sentence._replace(is_spoiled=True)] if kind == "doubled" else []
    return written


class Kept(NamedTuple):
    """A sentence that was kept, and the utterance of the corpus in which it is, in seconds."""

    index: int  # among the sentences of the text
    start: float
    end: float


def _compare(transcript, directory, spoken, written, name) -> int:
    path = os.path.join(directory, f"{name}.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{sentence.text}。\n" for sentence in written)
    kept = machine.measure("align", _align, transcript, path, written)
    ours = _judge(kept, spoken, written)
    ours.print(f"align, text {name}")
    kept_by_peer = machine.measure("ctc-segmentation", _run_peer, transcript, written, len(kept))
    peer = _judge(kept_by_peer, spoken, written)
    peer.print(f"ctc-segmentation, {name}")
    shares = [100 * np.mean(np.array(each.distances) <= _TOLERANCE) for each in (ours, peer)]
    spoiled = 100 * ours.num_spoiled_kept / (ours.num_spoiled or 1)
    return bars.show(
        [
            bars.Bar("kept within 0.2 s, %", shares[0], minimum=99),
            bars.Bar("of the peer, %", shares[1], maximum=shares[0]),
            bars.Bar("good sentences lost, %", 100 * ours.num_good_lost / ours.num_good, maximum=3),
            bars.Bar("spoiled sentences kept, %", spoiled, maximum=3),
        ]
    )


def _align(transcript, path, written) -> list[Kept]:
    recording = recordings.RecordingFile("joined.wav", "joined", path)
    rows = segments.make_rows("syllable", recording, transcript)["rows"]
    kept, place = [], 0
    for row in rows:
        if row["problem"] or row["score"] < align.AlignConfig.min_score:
            continue
        for text in filter(None, row["text"].replace(" ", "").split("。")):
            same = (i for i in range(place, len(written)) if written[i].text.replace(" ", "") == text)
            index = next(same, None)
            if index is not None:  # None: a part of a sentence that was too long
                kept.append(Kept(index, row["start"], row["start"] + row["seconds"]))
                place = index + 1
    return kept


def _judge(kept: Sequence[Kept], spoken: Sequence[Spoken], written: Sequence[Written]) -> Result:
    """Compares kept sentences with the truth; sentences of one utterance are cut as one."""
    spans: dict[tuple, list[int]] = {}
    for each in kept:
        spans.setdefault((each.start, each.end), []).append(each.index)
    found, distances = set(), []
    spoiled_kept = 0
    for (start, end), indices in spans.items():
        first, last = (spoken[written[indices[i]].utterance] for i in (0, -1))
        before = max((s.end for s in spoken if s.end <= first.start), default=0.0)
        after = min((s.start for s in spoken if s.start >= last.end), default=end)
        distance = max(0.0, start - first.start, before - start, last.end - end, end - after)
        is_there = start < first.end and end > last.start
        spoiled_kept += sum(written[i].is_spoiled and not is_there for i in indices)
        if is_there:
            distances.append(distance)
            found |= {written[i].utterance for i in indices}
    said = {sentence.utterance for sentence in written}
    exchanged = {sentence.utterance for sentence in written if sentence.is_spoiled}
    good = said - exchanged
    unwritten = [s for i, s in enumerate(spoken) if i not in said]
    spoiled_kept += sum(any(a < s.start and s.end < b for a, b in spans) for s in unwritten)
    num_spoiled = sum(sentence.is_spoiled for sentence in written) + len(unwritten)
    return Result(len(good), len(good - found), num_spoiled, spoiled_kept, distances)


def _run_peer(transcript, written, num_kept) -> list[Kept]:
    import ctc_segmentation

    heard = forced_alignment.join_segments(transcript.segments)
    frames = forced_alignment.read_frames(heard, 0, int(heard.firsts[-1]))
    vocabulary = heard.segments[0].vocabulary
    settings = ctc_segmentation.CtcSegmentationParameters(
        index_duration=1.0, blank=frames.shape[1] - 1, char_list=[*vocabulary.tokens, "<blank>"]
    )
    tokenise = texts.make_tokeniser("syllable")
    ids = [np.array(vocabulary.encode(tokenise(sentence.text))) for sentence in written]
    matrix, begins = ctc_segmentation.prepare_token_list(settings, ids)
    timings, probs, _ = ctc_segmentation.ctc_segmentation(settings, frames, matrix)
    names = [sentence.text for sentence in written]
    found = ctc_segmentation.determine_utterance_segments(settings, begins, probs, timings, names)
    limit = sorted((score for *_, score in found), reverse=True)[min(num_kept, len(found)) - 1]
    last = int(heard.firsts[-1]) - 1
    return [
        Kept(i, float(heard.starts[int(min(start, last))]), float(heard.starts[int(min(end, last))]))
        for i, (start, end, score) in enumerate(found)
        if score >= limit
    ]


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
