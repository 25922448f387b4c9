"""Measures hotwords on speech: recall, precision, errors in other words, and time.

    python -m benchmarks.hotwords --saved_model=EXPORT --data_dir=DATA --text_dir=TEXT

Hotwords have two to four hanzi. Half of them are words from the transcripts of the split, the rarest in the
text; the others are words from the text that do not occur in the transcripts. All have the boost from the
flag or from the export, and the pinyin that transcribe finds. An occurrence in a reference is right if the
transcript of the utterance contains the word too. Errors in other words are counted outside these
occurrences, per character outside them. The signature with features is timed without hotwords and with 1,000
hotwords, in turns. A missed bar is marked FAIL, and the exit code is then 1.
"""

from __future__ import annotations

import collections
import dataclasses
import random
import re
import statistics
from collections.abc import Sequence
from typing import NamedTuple, Optional

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import numpy as np
import rjieba
import tensorflow as tf
from rapidfuzz.distance import Editop, Levenshtein

from benchmarks import bars, comparison
from estimator_asr.decoding.hotwords import hotword_list
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import task_spec
from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.inputs import input_fn, splits
from estimator_asr.scoring import biasing
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info
from tfrecord_builder.program import config_flags, program

_WORD = re.compile("[\u4e00-\u9fff]{2,4}")
_MANY_WORDS = 1000
_BATCH_SIZE = 16


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model, the speech, the words, and how often they are timed."""

    saved_model: str = config_flags.setting(
        "", "export directory, or one version in it", required=True, local=True
    )
    data_dir: str = config_flags.setting("", "data directory of the speech", required=True)
    text_dir: str = config_flags.setting("", "data directory of text for the other words", required=True)
    split: str = config_flags.setting("dev", "split of both data directories")
    speakers: str = config_flags.setting("", "regular expression for the beginning of speaker names")
    num_words: int = config_flags.setting(
        200, "number of hotwords, half of which are not spoken", minimum=2, maximum=2000
    )
    boost: Optional[float] = config_flags.setting(None, "boost of each word; default: from the export")
    seed: int = config_flags.setting(
        1, "random seed for the words that are not spoken, and for the choice among equally rare words"
    )
    rounds: int = config_flags.setting(5, "number of rounds that are timed", minimum=1)


class Utterance(NamedTuple):
    """An utterance's features, float32 [num_frames, num_bins], and transcript."""

    fbank: np.ndarray
    transcript: str


class Counts(NamedTuple):
    """Numbers of occurrences of hotwords, and of errors outside these occurrences."""

    right: int
    spoken: int
    written: int
    errors: int
    characters: int


def main(config: BenchmarkConfig) -> int:
    """Prints the table and the bars; returns 1 if a bar is missed."""
    tf.get_logger().setLevel("ERROR")
    speech = [Utterance(*each) for each in read(config.data_dir, config, task_spec.ACOUSTIC, "fbank")]
    text = [transcript for _, transcript in read(config.text_dir, config, task_spec.LANGUAGE, "token_ids")]
    words, others = choose([each.transcript for each in speech], text, config.num_words // 2, config.seed)
    if not words:
        raise errors.UserError(
            f"hotwords: split {config.split} of {config.data_dir} has no words of two to four hanzi; "
            "pass another --data_dir or --split"
        )
    hotwords = [*words, *others[: len(words)]]
    boost = "" if config.boost is None else f" {config.boost}"
    sides = {"without": [], "with": hotwords, _MANY_WORDS: [*words, *others][:_MANY_WORDS]}
    runs = {name: build(config.saved_model, [each + boost for each in side]) for name, side in sides.items()}
    transcripts = {name: run(speech) for name, run in runs.items()}
    references = [each.transcript for each in speech]
    counts = {name: count(hotwords, references, each) for name, each in transcripts.items()}
    show(counts)
    timed = {str(name): lambda run=runs[name]: run(speech) for name in ("without", _MANY_WORDS)}
    return bars.show(make_bars(counts, comparison.time_in_turns(timed, config.rounds)))


def read(data_dir: str, config: BenchmarkConfig, spec: task_spec.TaskSpec, feature: str) -> list[tuple]:
    """Returns a feature without padding and the transcript of each utterance, shortest first."""
    source = splits.read_split(dataset_info.load_all([data_dir]), [data_dir], config.split, spec)
    found = []
    build_dataset = input_fn.build_input_fn(source, config_lib.InputConfig(), training=False)
    for batch, _ in input_fn.read_elements(build_dataset):
        rows = zip(batch[feature], batch[spec.length_key], batch["transcript"], batch["speaker"])
        found += [
            (values[:length], transcript.decode())
            for values, length, transcript, speaker in rows
            if not spec.reads_audio or re.match(config.speakers, speaker.decode())
        ]
    return sorted(found, key=lambda row: len(row[0]))


def choose(references: Sequence[str], text: Sequence[str], number: int, seed: int) -> tuple[list, list]:
    """Returns the rarest words of the references, and all words that occur only in the text, shuffled."""
    rng, in_text = random.Random(seed), count_words(text)
    spoken = sorted(count_words(references))
    rng.shuffle(spoken)
    everything = "\n".join(references)
    others = sorted(word for word in in_text if word not in everything)
    rng.shuffle(others)
    return sorted(spoken, key=lambda word: in_text[word])[:number], others


def count_words(lines: Sequence[str]) -> collections.Counter[str]:
    return collections.Counter(word for line in lines for word in rjieba.cut(line) if _WORD.fullmatch(word))


def build(saved_model: str, hotwords: Sequence[str]):
    """Returns a function that transcribes utterances with the hotwords."""
    words = [str(each) for each in hotword_list.read(hotwords, None)]
    model = recogniser.load(recogniser.find_version(saved_model), "features", words)

    def run(utterances):
        transcripts = []
        for start in range(0, len(utterances), _BATCH_SIZE):
            batch = utterances[start : start + _BATCH_SIZE]
            longest = max(len(each.fbank) for each in batch)
            rows = [np.pad(each.fbank, [(0, longest - len(each.fbank)), (0, 0)]) for each in batch]
            lengths = np.int32([len(each.fbank) for each in batch])
            transcripts += model.run({"fbank": np.float32(rows), "num_frames": lengths})["transcript"]
        return transcripts

    return run


def count(hotwords: Sequence[str], references: Sequence[str], transcripts: Sequence[str]) -> Counts:
    """Counts the occurrences of hotwords in both texts, and the errors outside those of the references."""
    totals, phrases = np.zeros(len(Counts._fields), int), biasing.index(hotwords)
    for reference, transcript in zip(references, transcripts):
        for word in hotwords:
            spoken, written = reference.count(word), transcript.count(word)
            totals += [min(spoken, written), spoken, written, 0, 0]
        is_hot = biasing.mark(phrases, reference)
        errors = sum(not is_inside(is_hot, edit) for edit in Levenshtein.editops(reference, transcript))
        totals += [0, 0, 0, errors, is_hot.count(False)]
    return Counts(*totals.tolist())


def is_inside(is_hot: Sequence[bool], edit: Editop) -> bool:
    """Returns True if an edit changes a character of a hotword, or inserts one inside a hotword."""
    place = edit.src_pos
    if edit.tag != "insert":
        return is_hot[place]
    return 0 < place < len(is_hot) and is_hot[place - 1] and is_hot[place]


def show(counts: dict) -> None:
    print(
        f"{'hotwords':>10}{'recall':>9}{'of':>6}{'precision':>11}{'of':>6}{'errors in other characters':>28}"
    )
    for name, each in counts.items():
        recall, precision = each.right / each.spoken, each.right / max(each.written, 1)
        others = f"{each.errors / each.characters:.2%} ({each.errors} of {each.characters})"
        print(f"{name:>10}{recall:9.1%}{each.spoken:6}{precision:11.1%}{each.written:6}{others:>28}")


def make_bars(counts: dict, seconds: dict[str, list[float]]) -> list[bars.Bar]:
    before, after = counts["without"], counts["with"]
    worse = 100 * (after.errors - before.errors) / after.characters
    slower = bars.ratio(seconds[str(_MANY_WORDS)], seconds["without"])
    print(f"seconds: {', '.join(f'{name} {statistics.median(each):.2f}' for name, each in seconds.items())}")
    return [
        bars.Bar("recall", after.right / after.spoken, minimum=0.95),
        bars.Bar("precision", after.right / max(after.written, 1), minimum=0.99),
        bars.Bar("errors in other characters, points more", worse, maximum=0.1),
        bars.Bar("time with 1,000 words, as a ratio", slower, maximum=1.1),
    ]


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
