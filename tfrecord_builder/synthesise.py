"""Synthesises a corpus from text: recordings by many speakers, and a manifest.

    python -m tfrecord_builder.synthesise --text_dir=TEXT --tts=espeak --output_dir=CORPUS
    python -m tfrecord_builder.synthesise --text_dir=TEXT --tts=kokoro --model=DIR --output_dir=CORPUS

Writes these files to --output_dir. The same settings produce the same bytes, and an interrupted run continues
when the command is repeated, even with another --runner.

    wav/<speaker>/<id>.wav    16 kHz, 16 bit, mono
    rejected.tsv              sentences that cannot be spoken, and recordings that --check rejects
    manifest.tsv              input of `build --corpus=manifest`; written last, when the corpus is complete
"""

from __future__ import annotations

from tfrecord_builder.program import interrupts

interrupts.exit_at_once(__name__)

import os
import signal
import sys
from collections.abc import Sequence

from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.data import dataset_info, manifest
from tfrecord_builder.program import program
from tfrecord_builder.storage import files
from tfrecord_builder.synthesis import prompts, recogniser_check, synthesised_corpus, text_plan


def main(
    config: text_plan.SynthesisConfig,
    output: synthesised_corpus.OutputConfig,
    check: recogniser_check.CheckConfig,
) -> None:
    """Plans, synthesises and checks the corpus."""
    recognise = recogniser_check.load(check.check) if check.check else None
    engine, output_dir = text_plan.TTS[config.tts](config), output.output_dir
    planned, rejected = text_plan.make_plan(config, engine)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # stops workers as Ctrl-C does
    with synthesised_corpus.claim(output_dir, config, planned, engine):
        with dispatch.connect(output.runner, output.num_workers, (output_dir, config.model)) as run:
            synthesised_corpus.write_recordings(output_dir, planned, engine, run)
        if recognise:
            rejected += recogniser_check.find_misread(recognise, planned, output_dir, check.max_error_rate)
        _finish(output_dir, planned, rejected)


def _finish(output_dir: str, planned: Sequence[prompts.Prompt], rejected: Sequence[Sequence[str]]) -> None:
    """Writes rejected.tsv and then manifest.tsv, and prints how many utterances they contain."""
    path = os.path.join(output_dir, dataset_info.REJECTED_FILE)
    lines = ["\t".join(row) + "\n" for row in (dataset_info.REJECTED_COLUMNS, *rejected)]
    files.write_text(path, "".join(lines))
    ids = {row[0] for row in rejected}
    accepted = [prompt for prompt in planned if prompt.utterance_id not in ids]
    synthesised_corpus.write_manifest(output_dir, accepted)
    for split in sorted({prompt.split for prompt in planned}, key=manifest.SPLITS.index):
        speakers = [prompt.speaker.name for prompt in accepted if prompt.split == split]
        print(f"{split}: {len(speakers)} utterances, {len(set(speakers))} speakers")
    print(f"rejected: {len(rejected)}, see {path}")


if __name__ == "__main__":
    configs = (text_plan.SynthesisConfig, synthesised_corpus.OutputConfig, recogniser_check.CheckConfig)
    program.run(main, *configs)
