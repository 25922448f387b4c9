"""Speak the demo's corpus: recordings with a manifest, and text for the language model.

    python -m tfrecord_builder.synthesise --output_dir=demo/corpus [--num_workers=N]

Out, under --output_dir (the same settings give the same bytes, whatever the number of workers):

    wav/<voice>/<id>.wav          16 kHz, 16 bit, mono
    text/{train,dev,test}.tsv     hanzi, pinyin: for `build --corpus=text`
    manifest.tsv                  for `build --corpus=manifest`; comes last, so it stands for a whole corpus

An interrupted run goes on where it stopped, a voice at a time.
"""

from __future__ import annotations

import os

from absl import flags

from tfrecord_builder import config_flags, errors
from tfrecord_builder.synthesis import corpus_plan, corpus_writer, espeak


def main(argv: list[str]) -> None:
    del argv
    config = config_flags.from_flags(corpus_plan.SynthesisConfig)
    output_dir = flags.FLAGS.output_dir
    espeak.check_installed()
    corpus_writer.claim(output_dir, config)
    plan = corpus_plan.make_plan(config)
    seconds = corpus_writer.write_recordings(output_dir, plan, config.synthesis_seed, flags.FLAGS.num_workers)
    corpus_writer.write_tables(output_dir, plan)
    print(f"{output_dir}: {len(plan.recordings)} recordings, {seconds / 60:.1f} minutes")


def define_flags() -> None:
    """Defines the flags of this program."""
    config_flags.define(corpus_plan.SynthesisConfig)
    flags.DEFINE_string("output_dir", None, "directory to write the corpus to", required=True)
    flags.DEFINE_integer("num_workers", os.cpu_count(), "voices to speak at a time", lower_bound=1)


if __name__ == "__main__":
    errors.run_program(main, define_flags)
