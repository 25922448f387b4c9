"""Measures how well align finds wrong transcripts in a corpus that is cut already.

    python -m benchmarks.suspects --saved_model=EXPORT --corpus_dir=CORPUS [--first_seed=4 --last_seed=8]

CORPUS has a manifest.tsv; its recordings of other splits than train are recognised once. For each seed, 2 %
of the transcripts are exchanged with one another; in another 2 %, a word of one or two characters is left out
or added, taken from another transcript. The figures are sums over the seeds. An exchanged transcript is found
if the fault is another sentence or other language, and a word if it is words left out or added, other words
or a cut.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence

from benchmarks import bars, machine

machine.load_libraries()

import numpy as np

from estimator_asr import align
from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.alignment import forced_alignment, frame_scores, suspects
from estimator_asr.serving.transcripts import recordings, transcriber
from tfrecord_builder.corpora import tables
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import normalisation
from tfrecord_builder.program import config_flags, program

_SHARE = 0.02
_EXCHANGED, _WORD, _GOOD = "exchanged", "word", ""
_FAULTS = dict.fromkeys((suspects.OTHER_SENTENCE, suspects.OTHER_LANGUAGE), _EXCHANGED) | dict.fromkeys(
    (suspects.LEFT_OUT, suspects.ADDED, suspects.OTHER_WORDS, suspects.CUT_BEGIN, suspects.CUT_END), _WORD
)


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model and the corpus."""

    saved_model: str = config_flags.setting(
        "", "export directory, or one version in it", required=True, local=True
    )
    corpus_dir: str = config_flags.setting("", "corpus with manifest.tsv", required=True, local=True)
    first_seed: int = config_flags.setting(4, "first random seed")
    last_seed: int = config_flags.setting(8, "last random seed")
    pinyin: bool = config_flags.setting(True, "use the pinyin in manifest.tsv; if False, only the hanzi")
    share: float = config_flags.setting(_SHARE, "fraction of the transcripts that are exchanged", minimum=0)


def main(config: BenchmarkConfig) -> int:
    version = recogniser.load_version(recogniser.find_version(config.saved_model))
    listed = (row for row in tables.list_manifest(config.corpus_dir) if row.split != "train")
    rows = [dataclasses.replace(row, text=normalisation.normalise(row.text)) for row in listed]
    heard = _recognise(version, rows)
    counts: collections.Counter = collections.Counter()
    for seed in range(config.first_seed, config.last_seed + 1):
        spoiled, kinds = _spoil(rows, np.random.default_rng(seed), config.share)
        if not config.pinyin:
            spoiled = [dataclasses.replace(row, pinyin="") for row in spoiled]
        results = suspects.check(version.info.token_type, spoiled, heard)
        for row, kind, result in zip(spoiled, kinds, results):
            low = suspects.UNCLEAR if result["score"] < align.AlignConfig.min_score else ""
            fault = result["fault"] or low
            counts[kind, fault] += 1
            if _FAULTS.get(fault, fault) != kind:
                print(f"seed {seed}, {row.utterance_id}, {kind or 'good'}: {fault or 'not found'}: {result}")
    return bars.show(
        [*_measure(counts, _EXCHANGED, 0.95), *_measure(counts, _WORD, 0.7), _count_lost(counts)]
    )


def _recognise(version, rows) -> list[forced_alignment.RecognisedRecording]:
    model, rate = frame_scores.FrameScorer([version]), version.info.frontend.sample_rate
    files = (recordings.RecordingFile(row.audio, row.utterance_id) for row in rows)
    transcripts = (transcriber.transcribe(model, file, rate) for file in files)
    return [forced_alignment.join_segments(transcript.segments) for transcript in transcripts]


def _spoil(
    rows: Sequence[manifest.Utterance], rng, share: float
) -> tuple[list[manifest.Utterance], list[str]]:
    """Returns the rows with spoiled transcripts, and the kind of each."""
    count = max(2, round(share * len(rows)))
    chosen = rng.permutation(len(rows))[: 2 * count]
    spoiled, kinds = list(rows), [_GOOD] * len(rows)
    for place, other in zip(chosen[:count], np.roll(chosen[:count], 1)):
        if rows[place].text != rows[other].text:
            spoiled[place] = dataclasses.replace(
                rows[place], text=rows[other].text, pinyin=rows[other].pinyin
            )
            kinds[place] = _EXCHANGED
    for place in chosen[count:]:
        spoiled[place], kinds[place] = _spoil_word(rows[place], rows[rng.integers(len(rows))], rng), _WORD
    return spoiled, kinds


def _spoil_word(row: manifest.Utterance, other: manifest.Utterance, rng) -> manifest.Utterance:
    """Leaves out one or two characters, or adds some of another row; a syllable of pinyin is a character."""
    pairs, others = (list(zip(each.text, each.pinyin.split())) for each in (row, other))
    size = int(rng.integers(1, 3))
    place = int(rng.integers(len(pairs) - size + 1))
    if rng.random() < 0.5:
        changed = pairs[:place] + pairs[place + size :]
    else:
        first = int(rng.integers(len(others) - size + 1))
        changed = pairs[:place] + others[first : first + size] + pairs[place:]
    text, pinyin = zip(*changed)
    return dataclasses.replace(row, text="".join(text), pinyin=" ".join(pinyin))


def _measure(counts: collections.Counter, kind: str, goal: float) -> list[bars.Bar]:
    found = sum(n for (each, fault), n in counts.items() if _FAULTS.get(fault) == kind)
    spoiled = sum(n for (each, _), n in counts.items() if each == kind)
    right = sum(n for (each, fault), n in counts.items() if each == kind == _FAULTS.get(fault))
    listed = sum(n for (each, fault), n in counts.items() if each == kind and fault)
    print(f"{kind}: {spoiled} spoiled, {listed} listed; {found} found, {right} of them right")
    return [
        bars.Bar(f"{kind}, precision", right / max(found, 1), minimum=goal),
        bars.Bar(f"{kind}, recall", right / max(spoiled, 1), minimum=goal),
    ]


def _count_lost(counts: collections.Counter) -> bars.Bar:
    good = sum(n for (kind, _), n in counts.items() if kind == _GOOD)
    lost = sum(n for (kind, fault), n in counts.items() if kind == _GOOD and fault)
    print(f"good: {lost} of {good} are suspicious")
    return bars.Bar("good utterances that are suspicious, %", 100 * lost / max(good, 1))


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
