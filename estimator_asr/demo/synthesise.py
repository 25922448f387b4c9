"""Synthesises the demo's corpus: recordings with a manifest, and text for the language model.

    python -m estimator_asr.demo.synthesise --output_dir=demo/corpus [--num_workers=N]

As tfrecord_builder.synthesise --tts=espeak, but of the sentences of a grammar, of which it also writes
text/{train,dev,test}.tsv (hanzi, pinyin) for `build --corpus=text`.
"""

from __future__ import annotations

import os

from estimator_asr.demo import grammar, script
from tfrecord_builder.settings import program
from tfrecord_builder.storage import files
from tfrecord_builder.synthesis import espeak, recordings, synthesised_corpus


def main(config: script.SynthesisConfig, output: synthesised_corpus.OutputConfig) -> None:
    """Writes the corpus."""
    engine, plan = espeak.Engine(config.synthesis_seed), script.make_plan(config)
    with synthesised_corpus.claim(output.output_dir, config, plan.prompts, engine):
        recordings.write_recordings(output.output_dir, plan.prompts, engine, output.num_workers)
        _write_text(os.path.join(output.output_dir, "text"), plan)
        synthesised_corpus.write_manifest(output.output_dir, plan.prompts)


def _write_text(text_dir, plan):
    os.makedirs(text_dir, exist_ok=True)
    for split, sentences in plan.text.items():
        lines = (f"{''.join(words)}\t{' '.join(grammar.read_words(words))}\n" for words in sentences)
        files.write_text(os.path.join(text_dir, f"{split}.tsv"), "hanzi\tpinyin\n" + "".join(lines))


if __name__ == "__main__":
    program.run(main, script.SynthesisConfig, synthesised_corpus.OutputConfig)
