"""Pretrained encoders as plain data: sizes and identity, in dataset_info.json and config.json."""

from __future__ import annotations

import dataclasses
from typing import Optional

# Families by model_type of their config.json, and the frontend whose frames their encoders read.
FAMILIES = {"whisper": "whisper_log_mel", "hubert": "waveform", "wav2vec2": "waveform"}
# Its sizes and weights, beside data that hold its outputs and beside models that read them.
FILES = ("encoder_config.json", "encoder.safetensors")


@dataclasses.dataclass(frozen=True)
class WaveformLayout:
    """What differs between encoders of samples, by the names and defaults of Hugging Face's files."""

    conv_dim: tuple[int, ...] = (512,) * 7  # channels of each convolution over samples
    conv_bias: bool = False
    feat_extract_norm: str = "group"  # the first of them is normalised over time; layer: each over channels
    do_stable_layer_norm: bool = False  # blocks normalise before each module, or else after it
    num_conv_pos_embeddings: int = 128  # width of the convolution that gives positions
    num_conv_pos_embedding_groups: int = 16
    do_normalize: bool = True  # waveforms are shifted and scaled to mean 0 and variance 1


@dataclasses.dataclass(frozen=True)
class PretrainedEncoder:
    """Sizes of an encoder, and which one it is.

    Attributes:
        family: a key of FAMILIES.
        num_mel_bins: features per frame of log-mel, which it reads or which is stored beside its outputs.
        units, inner_units, heads, layers: of its Transformer blocks.
        sha256: hex digest of its weights.
        waveform: of an encoder that reads samples.
    """

    family: str
    num_mel_bins: int
    units: int
    inner_units: int
    heads: int
    layers: int
    sha256: str
    waveform: Optional[WaveformLayout] = None

    subsampling = 2  # input frames for each output frame

    @property
    def is_pre_norm(self) -> bool:
        """Whether its blocks normalise before each module."""
        return self.waveform is None or self.waveform.do_stable_layer_norm


def choose_layers(last: int) -> tuple[int, ...]:
    """Returns the blocks that are read by default: two thirds of the way to `last`, and `last`.

    Lower ones carry the voice of the speaker: models that read them recognise others worse (docs/results.md).
    """
    return tuple(sorted({-(-last * part // 3) for part in (2, 3)}))


@dataclasses.dataclass(frozen=True)
class Applied:
    """What the records hold: outputs of some blocks (1 is the first, one after another), joined."""

    encoder: PretrainedEncoder
    layers: tuple[int, ...]

    @property
    def num_bins(self) -> int:
        """Values per output frame: the log-mel frames that it stands for, then each of the layers."""
        return self.encoder.subsampling * self.encoder.num_mel_bins + len(self.layers) * self.encoder.units
