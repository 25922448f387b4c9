"""Measures how fast punctuation marks and the written form are found on one core.

    python -m benchmarks.writing --saved_model=EXPORT

EXPORT has a punctuation model. The text is the spoken column of docs/written-form.tsv, of which nearly all is
numbers, dates and amounts; it is one recording of about a quarter of an hour. A live segment has its first 20
characters, whose marks and written form are found again whenever such a segment grows. A missed bar is marked
FAIL, and the exit code is then 1.
"""

from __future__ import annotations

import csv
import dataclasses
import os
import statistics
import timeit
from collections.abc import Callable

from benchmarks import bars, machine

machine.load_libraries()

from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.transcripts import captions, written_text
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, program

_TABLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "written-form.tsv")
_CHARACTERS_PER_SECOND, _LIVE_MS = 20_000, 2.0
_LIVE_CHARACTERS = 20  # about five seconds of speech


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model, and the number of rounds."""

    saved_model: str = config_flags.setting(
        "", "export directory with a punctuation model, or one version in it", required=True, local=True
    )
    rounds: int = config_flags.setting(20, "number of measurements, whose median is printed", minimum=1)


def main(config: BenchmarkConfig) -> int:
    """Prints the medians and the bars; returns 1 if a bar is missed."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    machine.use_graphs()
    punctuate = recogniser.load_version(recogniser.find_version(config.saved_model)).find_punctuate()
    if punctuate is None:
        raise errors.UserError(
            f"{config.saved_model} has no punctuation model; export it again with --punctuation_model_dir"
        )
    lines = read_spoken()
    characters = "".join(lines)
    (recording,) = written_text.find_marks([make_segment(characters)], punctuate)
    (live,) = written_text.find_marks([make_segment(characters[:_LIVE_CHARACTERS])], punctuate)

    def find_live():
        written_text.write(*written_text.find_marks([live], punctuate), punctuate.form)

    marks = measure(lambda: written_text.find_marks([recording], punctuate), config.rounds)
    written = measure(lambda: written_text.write(recording, punctuate.form), config.rounds)
    print(f"{len(characters):,} characters, one core, medians of {config.rounds} rounds")
    fastest = {"minimum": _CHARACTERS_PER_SECOND}
    return bars.show(
        [
            bars.Bar("marks, characters per second", len(characters) / marks, **fastest),
            bars.Bar("written form, characters per second", len(characters) / written, **fastest),
            bars.Bar("live segment, ms", 1000 * measure(find_live, config.rounds), maximum=_LIVE_MS),
        ]
    )


def read_spoken() -> list[str]:
    """Returns the phrases as they are spoken."""
    with open(_TABLE, encoding="utf-8", newline="") as file:
        return [row["spoken"] for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def make_segment(text: str) -> captions.TranscriptSegment:
    """Returns a segment with this transcript, four characters per second, without marks."""
    items = [
        {"character": each, "start": index / 4, "end": (index + 1) / 4, "mark": ""}
        for index, each in enumerate(text)
    ]
    return captions.TranscriptSegment(0.0, len(text) / 4, {"transcript": text, "characters": items})


def measure(run: Callable[[], object], rounds: int) -> float:
    """Returns the median of the seconds that a call takes; the first call is not counted."""
    run()
    return statistics.median(timeit.repeat(run, number=1, repeat=rounds))


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
