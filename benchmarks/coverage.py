"""Measures how often the 95 % interval of an error rate covers the true rate, in simulated evaluations.

    python -m benchmarks.coverage --repetitions=1000

An utterance's error rate is 8 % times a speaker effect (standard deviation 1/3) times a sentence effect
(standard deviation 1/2), both from gamma distributions with mean 1. Errors are binomial, and utterances have
5 to 20 tokens. The true rate is 8 %, over all speakers and sentences, or for the only speaker. A bootstrap
over utterances is shown for comparison. A missed bar is marked FAIL, and the exit code is then 1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks import bars
from estimator_asr.scoring import edit_distance, error_rate
from tfrecord_builder.program import config_flags, program

RATE, SPEAKER_DEVIATION, SENTENCE_DEVIATION = 0.08, 1 / 3, 1 / 2
LOWEST, HIGHEST = 0.93, 0.97  # limits for the coverage of a 95 % interval


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The number of simulated evaluations, and the random seed."""

    repetitions: int = config_flags.setting(1000, "number of evaluations per design", minimum=1)
    seed: int = config_flags.setting(0, "random seed")


class Design(NamedTuple):
    """The plan of a corpus: in utterance u, speaker u // num_each reads sentence u % num_sentences."""

    name: str
    num_speakers: int
    num_each: int  # sentences that each speaker reads
    num_sentences: int

    def clusterings(self) -> tuple[np.ndarray, np.ndarray]:
        utterances = np.arange(self.num_speakers * self.num_each)
        return utterances // self.num_each, utterances % self.num_sentences


ALL_BY_ALL = Design("10 speakers read the same 250 sentences", 10, 250, 250)
DESIGNS = (
    ALL_BY_ALL,
    Design("10 speakers, each 25 sentences of its own", 10, 25, 250),
    Design("30 speakers, each 20 sentences of its own", 30, 20, 600),
    Design("30 speakers read the same 20 sentences", 30, 20, 20),
    Design("400 speakers, each 5 of 100 sentences", 400, 5, 100),
    Design("1 speaker reads 250 sentences", 1, 250, 250),
    Design("2 speakers read the same 250 sentences", 2, 250, 250),
    Design("4 speakers read the same 100 sentences", 4, 100, 100),
)


def simulate(design: Design, rng: np.random.Generator) -> list[edit_distance.Edits]:
    """Returns each utterance's edits in one simulated evaluation."""
    speakers, sentences = design.clusterings()
    of_speakers = _effects(SPEAKER_DEVIATION, design.num_speakers, rng)
    if design.num_speakers == 1:
        of_speakers[:] = 1.0
    chance = RATE * of_speakers[speakers] * _effects(SENTENCE_DEVIATION, design.num_sentences, rng)[sentences]
    lengths = rng.integers(5, 20, design.num_sentences, endpoint=True)[sentences]
    errors = rng.binomial(lengths, np.minimum(chance, 1.0))
    return [edit_distance.Edits(error, 0, 0, length) for error, length in zip(errors, lengths)]


def _effects(deviation: float, count: int, rng: np.random.Generator) -> np.ndarray:
    return rng.gamma(deviation**-2, deviation**2, count)


def cover(
    design: Design, clusterings: Sequence[np.ndarray], repetitions: int, seed: int
) -> tuple[float, float]:
    """Returns the fraction of the intervals that cover the true rate, and the intervals' mean width."""
    rng = np.random.default_rng(seed)
    limits = np.array(
        [
            error_rate.measure(simulate(design, rng), clusterings, repetition).confidence_interval
            for repetition in range(repetitions)
        ]
    )
    covered = (limits[:, 0] <= RATE) & (limits[:, 1] >= RATE)
    return float(covered.mean()), float(np.mean(limits[:, 1] - limits[:, 0]))


def main(config: BenchmarkConfig) -> int:
    """Prints the table and the bars; returns 1 if a bar is missed."""
    print(f"{'coverage':>49}{'width':>10}{'over utterances':>17}{'width':>10}", flush=True)
    found = {}
    for design in DESIGNS:
        sides = design.clusterings(), [np.arange(design.num_speakers * design.num_each)]
        (ours, width), (naive, narrow) = (
            cover(design, side, config.repetitions, config.seed) for side in sides
        )
        print(
            f"{design.name:43}{ours:6.1%}{100 * width:8.2f} %{naive:17.1%}{100 * narrow:8.2f} %", flush=True
        )
        found[design] = ours, naive
    ours, naive = found[ALL_BY_ALL]
    return bars.show(
        [
            bars.Bar("covered, at least", ours, minimum=LOWEST),
            bars.Bar("covered, at most", ours, maximum=HIGHEST),
            bars.Bar("covered by a bootstrap over utterances", naive, maximum=LOWEST),
        ]
    )


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
