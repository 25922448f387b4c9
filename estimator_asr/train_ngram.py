"""Estimates an n-gram model of tokens or characters from the train split of data directories.

    python -m tfrecord_builder.build --corpus=text --corpus_dir=DIR[,DIR...] --output_dir=TEXT
    python -m estimator_asr.train_ngram --data_dir=TEXT --output_file=tokens.arpa

Text and speech can be mixed (--data_dir=TEXT,DATA); each line counts as often as it occurs. tokens.arpa holds
interpolated modified Kneser-Ney estimates in the ARPA format, which KenLM and SRILM also read. --prune=0,0,1
omits the 3-grams that occur only once, often three quarters of them; --prune=0 keeps all n-grams.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit(__name__)

import tensorflow as tf

from estimator_asr.decoding.ngrams import arpa, kneser_ney
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import task_spec
from estimator_asr.inputs import input_fn, splits
from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import copy_ids
from tfrecord_builder.data import dataset_info
from tfrecord_builder.program import config_flags, program, progress_bar, urls
from tfrecord_builder.storage import files, locks

_SPLIT = "train"
_MAX_ORDER = 6


@dataclasses.dataclass(frozen=True)
class TrainNgramConfig(config_flags.Checked):
    """Flags of train_ngram."""

    data_dir: tuple[str, ...] = config_flags.setting(
        (), "comma-separated data directories of text or speech", required=True
    )
    output_file: str = config_flags.setting(
        "", "ARPA file to write, compressed if its name ends in .gz; an older file is replaced", required=True
    )
    order: int = config_flags.setting(3, "length of the longest n-grams", minimum=1, maximum=_MAX_ORDER)
    unit: str = config_flags.setting(
        "token",
        "unit of the n-grams: token (of the acoustic model) or character (of the transcripts; white space is "
        "left out)",
        choices=("token", "character"),
    )
    prune: tuple[int, ...] = config_flags.setting(
        (0, 0, 1),
        "thresholds, one per order: n-grams that occur at most this often are omitted; the last threshold "
        "also applies to all higher orders",
        minimum=0,
    )

    def __post_init__(self):
        super().__post_init__()
        if not self.prune or self.prune[0] or list(self.prune) != sorted(self.prune):
            raise errors.UserError(
                f"the values of --prune={','.join(map(str, self.prune))} must begin with 0 and must not "
                "decrease; pass, for example, --prune=0,0,1"
            )


def train(config: TrainNgramConfig) -> kneser_ney.Estimate:
    """Estimates an n-gram model and writes it.

    Raises errors.UserError if the data is incomplete, damaged or empty, if the token types of its directories
    differ, if the directory of the output file does not exist, or if another run is writing the file.
    """
    path = files.find_target(config.output_file)
    directory = os.path.dirname(path)
    if directory and not urls.is_remote(path) and not files.is_directory(directory):
        raise errors.UserError(
            f"--output_file: the directory {directory} does not exist; create it, or choose another file"
        )
    busy = f"--output_file: another train_ngram is writing {path}; wait until it ends, or choose another file"
    lock = locks.exclusive(f"{path}.lock", busy, is_temporary=True)
    with lock, progress_bar.ProgressBar(desc="estimate", total=3, unit="step") as progress:
        text = kneser_ney.encode(read_sentences(config.data_dir, config.unit))
        progress.update()
        estimate = kneser_ney.estimate(text, config.order, config.prune)
        progress.update()
        arpa.write(estimate.model, config.output_file)
        progress.update()
    return estimate


def read_sentences(data_dirs: Sequence[str], unit: str) -> Iterator[list[str]]:
    """Yields the tokens or characters of each utterance in the train split; augmented copies count once."""
    infos = dataset_info.load_all(data_dirs)
    types = sorted({info.token_type for info in infos})
    if unit == "token" and len(types) > 1:
        raise errors.UserError(
            f"{','.join(data_dirs)}: token types are {' and '.join(types)}, expected a single type; build "
            "all data with one --token_type, or pass --unit=character"
        )
    source = splits.read_split(infos, data_dirs, _SPLIT, task_spec.LANGUAGE)
    read = input_fn.build_input_fn(source, config_lib.InputConfig(), training=False)
    bar = progress_bar.ProgressBar(desc="read", total=source.num_utterances, unit=" utterances", leave=False)
    originals, copies = set(), {}
    with splits.explain_damage(data_dirs, _SPLIT), bar:
        for batch, _ in input_fn.read_elements(read):
            texts = batch["pronunciation" if unit == "token" else "transcript"]
            for name, text in zip(batch["utterance_id"], texts):
                words = text.decode("utf-8").split()
                words = words if unit == "token" else list("".join(words))
                original, *changes = copy_ids.COPY.split(name.decode("utf-8"), maxsplit=1)
                if changes:
                    copies.setdefault(original, words)
                else:
                    originals.add(original)
                    yield words
            bar.update(len(batch["transcript"]))
    yield from (copies[original] for original in sorted(copies.keys() - originals))


def describe(estimate: kneser_ney.Estimate) -> Iterator[str]:
    """Yields a line for each order: how many of the text's n-grams the model keeps, and the discounts."""
    for n, num_ngrams in enumerate(estimate.num_ngrams, start=1):
        num_kept = len(estimate.model.orders[n - 1].words) if n <= estimate.model.order else 0
        discounts = ", ".join(f"{value:.3f}" for value in estimate.discounts[n - 1])
        reason = " (defaults: the text is too small or too regular to estimate them)"
        note = reason if estimate.has_fallback[n - 1] else ""
        yield f"{n}-grams: kept {num_kept:,} of {num_ngrams:,}, discounts {discounts}{note}"


def main(config: TrainNgramConfig) -> None:
    tf.get_logger().setLevel("ERROR")
    estimate = train(config)
    print("\n".join(describe(estimate)))
    num_bytes, _ = files.size_and_time(config.output_file)
    print(f"{config.output_file}: {num_bytes / 1e6:.1f} MB")


if __name__ == "__main__":
    program.run(main, TrainNgramConfig)
