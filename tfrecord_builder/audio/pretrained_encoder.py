"""Pretrained encoders as plain data: sizes and identity, in dataset_info.json and config.json."""

from __future__ import annotations

import dataclasses

# Its sizes and weights, beside data that hold its outputs and beside models that read them.
FILES = ("encoder_config.json", "encoder.safetensors")


@dataclasses.dataclass(frozen=True)
class PretrainedEncoder:
    """Sizes of an encoder, and which one it is.

    Attributes:
        family: "whisper".
        num_mel_bins: features per input frame.
        units, inner_units, heads, layers: of its Transformer blocks.
        sha256: hex digest of its weights.
    """

    family: str
    num_mel_bins: int
    units: int
    inner_units: int
    heads: int
    layers: int
    sha256: str

    subsampling = 2  # input frames for each output frame


def choose_layers(last: int) -> tuple[int, ...]:
    """Returns the blocks that are read by default: a third and two thirds of the way to `last`, and `last`.

    Lower blocks keep what is said apart from what it means: syllables and tones (docs/results.md).
    """
    return tuple(sorted({-(-last * part // 3) for part in (1, 2, 3)}))


@dataclasses.dataclass(frozen=True)
class Applied:
    """What the records hold: outputs of some blocks (1 is the first, one after another), joined."""

    encoder: PretrainedEncoder
    layers: tuple[int, ...]

    @property
    def num_bins(self) -> int:
        """Values per output frame: the input frames that it stands for, then each of the layers."""
        return self.encoder.subsampling * self.encoder.num_mel_bins + len(self.layers) * self.encoder.units
