"""Times the training step of the language model beside the same model in PyTorch, and prints the ratio.

    python -m pip install -r benchmarks/requirements.txt
    python -m benchmarks.language

Both sides have the same weights, batch, loss, clipping and Adam, and two cores. Loss and gradient norm are
compared first, without dropout; then both sides run steps in turns. Times are medians over the rounds, and
the ratio is the median of the rounds' ratios. A missed bar is marked FAIL, and the exit code is then 1.
"""

from __future__ import annotations

import dataclasses
import statistics

from benchmarks import bars, comparison, machine

machine.load_libraries()

from benchmarks.language import ours as language_ours
from estimator_asr.experiment import config as config_lib
from tfrecord_builder.program import config_flags, program

# N-gram rows begin at zero, where Adam makes whole steps of the rounding of their smallest gradients.
_MAX_MILLIONTHS = 1000


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The batch, and how often it is timed; the model is the default one."""

    dropout: bool = config_flags.setting(False, "dropout as in training; losses are then not compared")
    batch_size: int = config_flags.setting(256, "sentences", minimum=1)
    length: int = config_flags.setting(15, "tokens of the longest sentence", minimum=1)
    num_tokens: int = config_flags.setting(1400, "tokens", minimum=3)
    num_characters: int = config_flags.setting(5800, "characters", minimum=3)
    num_candidates: int = config_flags.setting(12, "characters of each token", minimum=1)
    ngram_rows: int = config_flags.setting(
        config_lib.LanguageConfig().ngram_rows, "rows of the n-gram table", minimum=1
    )
    rounds: int = config_flags.setting(20, "number of timed steps per side", minimum=1)

    def language(self) -> config_lib.LanguageConfig:
        """The model."""
        rates = {} if self.dropout else {"language_dropout": 0.0, "ngram_dropout": 0.0}
        return config_lib.LanguageConfig(ngram_rows=self.ngram_rows, **rates)


def main(config: BenchmarkConfig) -> int:
    """Prints the table and the bars; returns 1 if a bar is missed."""
    machine.check("torch", "PyTorch")
    machine.use_graphs()
    sizes = (config.num_tokens, config.num_characters, config.num_candidates)
    model = language_ours.make_model(config.language(), *sizes)
    batch = language_ours.make_batch(model, config.batch_size, config.length)
    sides = make_sides(model, batch)
    found = [] if config.dropout else comparison.compare(sides, max_millionths=_MAX_MILLIONTHS)
    return bars.show([*found, time_sides(sides, config.rounds, int(batch.num_tokens.sum()))])


def make_sides(model, batch: language_ours.Batch) -> dict:
    """Returns our step and PyTorch's, keyed by name, with the same weights."""
    import torch

    from benchmarks.language import peer as language_torch
    from benchmarks.train_step import peer as train_step_torch

    torch.set_num_threads(machine.NUM_CORES)
    ours = language_ours.open_session(model, batch)
    mask = model.readings.mask(model.tokens, model.characters)
    network = language_torch.Language(model.config.language, mask)
    inputs = (batch.token_ids, batch.character_ids, batch.num_tokens)
    peer = train_step_torch.Trainer(network, model.config.optimizer, ours.weights(), inputs)
    return {"ours": ours, "PyTorch": peer}


def time_sides(sides: dict, rounds: int, num_tokens: int) -> bars.Bar:
    """Times both sides in turns, and prints the table."""
    seconds = comparison.time_in_turns({name: side.step for name, side in sides.items()}, rounds)
    print(f"{'step':10}{'seconds':>9}{'tokens/s':>10}")
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"{name:10}{median:9.3f}{num_tokens / median:10,.0f}")
    ratio = bars.ratio(seconds["ours"], seconds["PyTorch"])
    return bars.Bar("step, times what PyTorch takes", ratio, maximum=1)


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
