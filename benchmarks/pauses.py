"""Measures what the pauses in recognised speech add to the F1 of its punctuation marks.

    python -m benchmarks.pauses --saved_model=EXPORT --corpus_dir=CORPUS --written=written.tsv

EXPORT has a punctuation model whose pauses are tuned. CORPUS has a manifest.tsv, and written.tsv the columns
id and written, the text with marks; only its utterances are used. They are recognised alone and joined, in
the order of the manifest, to recordings of about two minutes, whose only silence is that of the utterances.
The marks of the same characters are chosen with their pauses and without. For what better recognition would
reach, the same is measured on the characters of the references, with times by forced alignment. Intervals are
those of a paired bootstrap over utterances; a joined text is cut where a shortest alignment has their
boundaries.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks import bars, machine

machine.load_libraries()

import numpy as np

from estimator_asr.exporting.saved_model import marking, recogniser
from estimator_asr.scoring import edit_distance, error_rate, punctuation_scores
from estimator_asr.serving.transcripts import captions, pauses, transcriber, written_text
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.corpora import tables
from tfrecord_builder.data import manifest, marks
from tfrecord_builder.program import config_flags, program

_JOINED_SECONDS = 120
_MEASURES = (punctuation_scores.COMMAS_STOPS_QUESTIONS, punctuation_scores.SENTENCE_ENDS)


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model and the recordings."""

    saved_model: str = config_flags.setting(
        "", "export directory with a punctuation model, or one version in it", required=True, local=True
    )
    corpus_dir: str = config_flags.setting("", "corpus with manifest.tsv", required=True, local=True)
    written: str = config_flags.setting(
        "", "table with the columns id and written: the texts with marks", required=True, local=True
    )


class Spoken(NamedTuple):
    """An utterance: its text with marks, its row in the manifest, and its recording at the model's rate."""

    reference: str
    row: manifest.Utterance
    waveform: np.ndarray


def main(config: BenchmarkConfig) -> int:
    machine.use_graphs()
    version = recogniser.load_version(recogniser.find_version(config.saved_model))
    punctuators, rate = _find_punctuators(version), version.info.frontend.sample_rate
    utterances = _read(config, rate)
    aligned = dict(_align(version, utterances))
    print(f"{len(utterances)} utterances; {len(aligned)} of them can be aligned with their pinyin")
    waveform, limits = version.find("waveform"), []
    for name, seconds in (("alone", 0), ("joined", _JOINED_SECONDS)):
        groups = join(utterances, seconds * rate)
        recognised = [_recognise(waveform, group, rate) for group in groups]
        limits += _compare(f"{name}, recognised", groups, recognised, punctuators)
        groups = join([item for item in utterances if item.row.utterance_id in aligned], seconds * rate)
        placed = [list(_place(group, aligned, rate)) for group in groups]
        if aligned:
            _compare(f"{name}, reference", groups, placed, punctuators)
    return bars.show(limits)


def _find_punctuators(version) -> tuple[recogniser.Recogniser, recogniser.Recogniser]:
    """Returns the signature punctuate with pauses that add nothing, and with those that it gets."""
    decode = version.info.punctuation.decode if version.info.punctuation else {}
    if not float(decode.get("pause_weight", 0)):
        problem = "there is no punctuation model, or tune has not chosen the weight of its pauses"
        raise errors.UserError(f"{version.version_dir}: {problem}; run tune and export the model again")
    neutral = np.full([1, marking.MAX_CHARACTERS], float(decode["pause_offset"]), np.float32)
    punctuate = version.find_punctuate()
    return dataclasses.replace(punctuate, constants={"pauses": neutral}), punctuate


def _read(config: BenchmarkConfig, rate: int) -> list[Spoken]:
    with open(config.written, encoding="utf-8", newline="") as file:
        texts = {row["id"]: marks.unify(row["written"]) for row in csv.DictReader(file, delimiter="\t")}
    rows = [row for row in tables.list_manifest(config.corpus_dir) if row.utterance_id in texts]
    recordings = (audio_files.read_audio(row.audio, rate, math.inf, *row.segment) for row in rows)
    return [Spoken(texts[row.utterance_id], row, recording) for row, recording in zip(rows, recordings)]


def join(utterances: Sequence[Spoken], num_samples: int) -> list[list[Spoken]]:
    """Cuts a list of utterances into groups of similar length, as close to `num_samples` as possible.

    If `num_samples` is 0, each utterance is a group.
    """
    lengths = [len(item.waveform) for item in utterances]
    total, middles = sum(lengths), np.cumsum(lengths) - np.array(lengths) / 2
    count = max(1, round(total / num_samples)) if num_samples else 0
    keys = [int(middle * count / total) if count else index for index, middle in enumerate(middles)]
    return [
        [utterances[i] for i in group] for _, group in itertools.groupby(range(len(keys)), keys.__getitem__)
    ]


def _recognise(model, group: Sequence[Spoken], rate: int) -> list[captions.TranscriptSegment]:
    pieces = pauses.cut([item.waveform for item in group], rate)
    return list(itertools.chain.from_iterable(transcriber.recognise_pieces(model, pieces, rate)))


def _align(version, utterances: Sequence[Spoken]) -> Iterator[tuple[str, list[dict]]]:
    """Yields an utterance's id and its characters with times, if it has as many characters as syllables."""
    align = version.find("align")
    for _, row, waveform in utterances:
        batch = {"waveform": waveform[None], "num_samples": [len(waveform)], "tokens": [row.pinyin.encode()]}
        (times,) = align.run(batch)["tokens"]
        characters = row.text.replace(" ", "")
        if times and len(times) == len(characters):
            yield row.utterance_id, [{**time, "character": c} for time, c in zip(times, characters)]


def _place(group: Sequence[Spoken], aligned: Mapping, rate: int) -> Iterator[captions.TranscriptSegment]:
    """Yields the utterances of a recording with the characters of their references."""
    ends = np.cumsum([len(item.waveform) for item in group]) / rate
    for (_, row, waveform), end in zip(group, ends):
        result = {"transcript": row.text, "characters": aligned[row.utterance_id]}
        yield captions.TranscriptSegment(end - len(waveform) / rate, end, result)


def _compare(name: str, groups, recognised, punctuators) -> list[bars.Bar]:
    """Prints the F1 without and with pauses; returns the bars of ，。？ together."""
    references = [[item.reference for item in group] for group in groups]
    sides: tuple[list, list] = [], []
    for texts, segments in zip(references, recognised):
        for punctuate, counts in zip(punctuators, sides):
            marked = written_text.find_marks(segments, punctuate)
            parts = split(texts, "".join(segment.result["punctuated"] for segment in marked))
            counts += map(punctuation_scores.score, texts, parts)
    limits = []
    for measure in _MEASURES:
        f1s = [100 * punctuation_scores.f1(counts, measure) for counts in sides]
        ratios = (punctuation_scores.count_f1(counts, measure) for counts in sides)
        resampled = error_rate.resample_difference(*ratios, [range(len(sides[0]))])
        low, high = (100 * limit for limit in error_rate.interval(resampled)) if resampled else (0.0, 0.0)
        print(
            f"{name:18} {measure:23} without {f1s[0]:5.1f} %, with {f1s[1]:5.1f} %, {f1s[1] - f1s[0]:+5.1f} "
            f"points (95 % interval {low:+.1f} to {high:+.1f}), {len(sides[0])} utterances"
        )
        limits.append(bars.Bar(f"{name}: F1 of ，。？ by pauses, points", f1s[1] - f1s[0], minimum=3))
        limits.append(bars.Bar(f"{name}: lower end of the interval", low, minimum=0))
    return limits[:2]


def split(references: Sequence[str], hypothesis: str) -> list[str]:
    """Splits a text with marks where a shortest alignment has the boundaries of the references."""
    characters, mark_ids = marks.split(hypothesis)
    lengths = [len(marks.split(reference)[0]) for reference in references]
    joined = marks.split("".join(references))[0]
    pairs = edit_distance.list_pairs(joined, characters)
    begins = np.cumsum([0, *lengths])[1:-1]
    cuts = [next((j for i, j in pairs if i >= begin), len(characters)) for begin in begins]
    edges = itertools.pairwise([0, *cuts, len(characters)])
    return [marks.join("".join(characters[a:b]), mark_ids[a:b]) for a, b in edges]


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
