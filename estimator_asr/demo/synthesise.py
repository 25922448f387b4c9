"""Synthesises the demo's corpus: recordings with a manifest, and text for the language model.

    python -m estimator_asr.demo.synthesise --output_dir=demo/corpus [--num_workers=N]

Writes to --output_dir (the same settings give the same bytes, whatever the number of workers):

    wav/<voice>/<id>.wav          16 kHz, 16 bit, mono
    text/{train,dev,test}.tsv     hanzi, pinyin: for `build --corpus=text`
    manifest.tsv                  for `build --corpus=manifest`; written last, when the corpus is complete

An interrupted run continues where it stopped, voice by voice. A directory with a corpus of other settings, or
of other sentences by another version of this program, is refused.
"""

from __future__ import annotations

import dataclasses
import signal
import sys
from typing import Optional

from estimator_asr.demo import corpus_writer, espeak, script, synthesis
from tfrecord_builder.runtime import cpu
from tfrecord_builder.settings import config_flags, program


@dataclasses.dataclass(frozen=True)
class OutputConfig(config_flags.Checked):
    """Output directory and number of workers; neither changes a byte of the corpus."""

    output_dir: str = config_flags.setting("", "directory to write the corpus to", required=True, local=True)
    num_workers: Optional[int] = config_flags.setting(
        None, "number of voices that speak at the same time; one per core if empty", minimum=1
    )


def main(config: script.SynthesisConfig, output: OutputConfig) -> None:
    """Writes the corpus."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # ends the voices as Ctrl-C does
    espeak.check_installed()
    plan = script.make_plan(config)
    corpus_writer.claim(output.output_dir, config, plan)
    num_workers = output.num_workers or cpu.count_cores()
    seconds = synthesis.write_recordings(output.output_dir, plan, config.synthesis_seed, num_workers)
    corpus_writer.write_tables(output.output_dir, plan)
    print(f"{output.output_dir}: {len(plan.prompts)} recordings, {seconds / 60:.1f} minutes")


if __name__ == "__main__":
    program.run(main, script.SynthesisConfig, OutputConfig)
