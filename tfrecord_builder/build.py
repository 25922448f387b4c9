"""Builds TFRecords from a corpus.

    python -m tfrecord_builder.build --corpus=manifest --corpus_dir=DIR[,DIR...] --output_dir=DATA
    python -m tfrecord_builder.build --corpus=text --corpus_dir=DIR[,DIR...] --output_dir=TEXT
    python -m tfrecord_builder.build --corpus=punctuated --corpus_dir=DIR[,DIR...] --output_dir=MARKS
    python -m tfrecord_builder.build --flagfile=flags/thchs30/build.flags --corpus_dir=DIR --output_dir=DATA

DATA then contains the shards of each split (each with a .jsonl file that names its recordings), tokens.txt,
characters.txt, readings.tsv, rejected.tsv (rejected utterances and the reasons), report.html (read it before
training) and dataset_info.json, which the other programs read. An interrupted build continues where it
stopped when it is run again with the same flags.
"""

from __future__ import annotations

from tfrecord_builder.program import interrupts

interrupts.exit_at_once(__name__)

import os

from tfrecord_builder.audio import frontend
from tfrecord_builder.audio.augmentation import augmentation_config
from tfrecord_builder.building import builder
from tfrecord_builder.data import dataset_info
from tfrecord_builder.labels import labelling, vocabularies
from tfrecord_builder.program import program

GROUPS = {
    "What to build": ("corpus", "corpus_dir", "output_dir", "overwrite", "dev_fraction"),
    "What to reject": ("max_seconds", "max_rejected"),
    "Features": ("frontend", "sample_rate", "num_mel_bins"),
    "Augmented copies": (
        *("speed_perturb_factors", "augmented_copies", "rir_dir", "noise_dir", "noise_snr_db", "volume_db"),
        *("codecs", "sound_share"),
    ),
    "Tokens": (
        *("token_type", "user_dictionary", "tone_sandhi", "numbers", "bpe_vocab_size", "vocabulary_dir"),
        "extend_vocabulary",
    ),
    "Shards and workers": ("num_shards", "num_workers", "runner"),
}


def main(config: builder.BuildConfig, *others: object) -> None:
    """Builds the data directory and prints a summary."""
    info = builder.build(config, *others)
    print("\n".join(_describe(info)))
    print(f"rejected: {info.num_rejected}, see {os.path.join(config.output_dir, dataset_info.REJECTED_FILE)}")
    print(f"report (read it before training): {os.path.join(config.output_dir, dataset_info.REPORT_FILE)}")


def _describe(info: dataset_info.DatasetInfo) -> list[str]:
    """Returns a one-line summary of each split; data built from text has no hours and no speakers."""
    lines = []
    for name, split in sorted(info.splits.items()):
        speakers = f"{split.num_speakers} speakers" if split.num_speakers else "speakers unknown"
        audio = f"{split.hours:.2f} hours, {speakers}, " if info.frontend else ""
        shared = split.shared_sentences.get("train")
        also = f" ({shared} also in train)" if shared else ""
        lines.append(
            f"{name}: {split.num_utterances} utterances, {audio}{split.num_sentences} sentences{also}, "
            f"{split.num_tokens} tokens ({split.unknown_tokens} unknown), "
            f"{split.num_characters} characters ({split.unknown_characters} unknown)"
            + (f", {split.num_marks} marks" if split.num_marks else "")
        )
    return lines


if __name__ == "__main__":
    program.run(
        main,
        builder.BuildConfig,
        frontend.FrontendConfig,
        augmentation_config.AugmentationConfig,
        labelling.LabelConfig,
        vocabularies.VocabularyConfig,
        groups=GROUPS,
    )
