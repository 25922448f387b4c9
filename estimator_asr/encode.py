"""Runs a pretrained encoder once over all records, and stores its outputs as new records.

    python -m tfrecord_builder.build --flagfile=flags/whisper/build.flags --corpus_dir=DIR --output_dir=DATA
    python -m estimator_asr.encode --weights=WHISPER --data_dir=DATA --output_dir=ENCODED
    python -m estimator_asr.train --flagfile=flags/whisper/acoustic.flags --data_dir=ENCODED --model_dir=AM

WHISPER is a directory with the published config.json and model.safetensors of Whisper, HuBERT or wav2vec 2.0
(docs/pretrained.md). A training step on ENCODED takes a third as long as a step with the encoder in the
graph (docs/experiments/pretrained-speed.md). ENCODED holds a copy of the encoder; train copies it to AM, and
export copies it into the SavedModel. To continue an interrupted run, repeat the same command.
"""

from __future__ import annotations

from tfrecord_builder.program import interrupts

interrupts.exit_at_once(__name__)

import dataclasses
from typing import Optional

from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.program import config_flags, lazy_tensorflow, program


@dataclasses.dataclass(frozen=True)
class EncodeConfig(config_flags.Checked):
    """Flags of encode."""

    weights: str = config_flags.setting(
        "", "directory with a pretrained model's config.json and model.safetensors", required=True, local=True
    )
    data_dir: str = config_flags.setting(
        "", "one data directory, built with the encoder's --frontend; train accepts several", required=True
    )
    output_dir: str = config_flags.setting(
        "", "data directory to write; must be new or empty unless --overwrite is set", required=True
    )
    layers: tuple[int, ...] = config_flags.setting(
        (),
        "numbers of the blocks whose outputs are stored, counted from 1; default: the last block and the "
        "block at two thirds of the depth",
        minimum=1,
    )
    num_workers: Optional[int] = config_flags.setting(
        None, "number of processes; if empty, one per core", minimum=1
    )
    runner: str = config_flags.setting(dispatch.LOCAL, dispatch.HELP)
    overwrite: bool = config_flags.setting(
        False, "replace the data in --output_dir, once the new data is complete"
    )


def main(config: EncodeConfig) -> None:
    """Encodes a data directory and prints a summary."""
    lazy_tensorflow.load().get_logger().setLevel("ERROR")
    from estimator_asr.pretrained import encoder

    info = encoder.encode(**vars(config))
    for name, split in sorted(info.splits.items()):
        size = sum(shard.num_bytes for shard in split.shards) / 1e9
        print(f"{name}: {split.num_utterances} utterances, {split.hours:.2f} hours, {size:.2f} GB")


if __name__ == "__main__":
    program.run(main, EncodeConfig)
