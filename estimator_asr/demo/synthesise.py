"""Speak the demo's corpus: recordings with a manifest, and text for the language model.

    python -m estimator_asr.demo.synthesise --output_dir=demo/corpus [--num_workers=N]

Out, under --output_dir (the same settings give the same bytes, whatever the number of workers):

    wav/<voice>/<id>.wav          16 kHz, 16 bit, mono
    text/{train,dev,test}.tsv     hanzi, pinyin: for `build --corpus=text`
    manifest.tsv                  for `build --corpus=manifest`; comes last, so it stands for a whole corpus

An interrupted run goes on where it stopped, a voice at a time. A directory of another plan, that is of other
settings or of other sentences in another version of this program, is refused.
"""

from __future__ import annotations

import os
import signal
import sys

from estimator_asr.demo import corpus_writer, espeak, script, synthesis
from tfrecord_builder import config_flags, errors


def main(argv: list[str]) -> None:
    """Writes the corpus that the flags say."""
    del argv
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends the voices as Ctrl-C does
    config = config_flags.from_flags(script.SynthesisConfig)
    output = config_flags.from_flags(corpus_writer.OutputConfig)
    espeak.check_installed()
    plan = script.make_plan(config)
    corpus_writer.claim(output.output_dir, config, plan)
    num_workers = output.num_workers or len(os.sched_getaffinity(0))
    seconds = synthesis.write_recordings(output.output_dir, plan, config.synthesis_seed, num_workers)
    corpus_writer.write_tables(output.output_dir, plan)
    print(f"{output.output_dir}: {len(plan.recordings)} recordings, {seconds / 60:.1f} minutes")


def define_flags() -> None:
    """Defines the flags of this program."""
    config_flags.define(script.SynthesisConfig)
    config_flags.define(corpus_writer.OutputConfig)


if __name__ == "__main__":
    errors.run_program(main, define_flags)
