"""Descriptions of pretrained encoders (sizes and weight hash) for dataset_info.json and config.json."""

from __future__ import annotations

import dataclasses
from typing import Optional

# Encoder families (`model_type` in Hugging Face's config.json), and the frontend for each.
FAMILIES = {"whisper": "whisper_log_mel", "hubert": "waveform", "wav2vec2": "waveform"}
# Files with an encoder's sizes and weights. Data that contain the encoder's outputs, and models trained on
# such data, include these files.
FILES = ("encoder_config.json", "encoder.safetensors")


@dataclasses.dataclass(frozen=True)
class WaveformLayout:
    """Architecture options of encoders that read samples; names and defaults follow Hugging Face."""

    conv_dim: tuple[int, ...] = (512,) * 7  # output channels of each convolution over the samples
    conv_bias: bool = False
    # "group" normalises the first convolution's output over time; "layer", all outputs over channels.
    feat_extract_norm: str = "group"
    do_stable_layer_norm: bool = False  # if True, blocks normalise before each module, not after it
    num_conv_pos_embeddings: int = 128  # kernel size of the convolution that encodes positions
    num_conv_pos_embedding_groups: int = 16
    do_normalize: bool = True  # if True, waveforms are normalised to mean 0 and variance 1


@dataclasses.dataclass(frozen=True)
class PretrainedEncoder:
    """Sizes and identity of a pretrained encoder."""

    family: str  # a key of FAMILIES
    num_mel_bins: int  # values per log-mel frame; the frames are the encoder's input or accompany its outputs
    units: int  # values per frame in the Transformer
    inner_units: int  # width of the Transformer's feed-forward modules
    heads: int  # attention heads per block
    layers: int  # number of Transformer blocks
    sha256: str  # hex digest of the weights
    waveform: Optional[WaveformLayout] = None  # set if the encoder reads samples instead of log-mel frames

    subsampling = 2  # input frames per output frame

    @property
    def is_pre_norm(self) -> bool:
        """True if the blocks normalise before each module, False if after it."""
        return self.waveform is None or self.waveform.do_stable_layer_norm


def choose_layers(last: int) -> tuple[int, ...]:
    """Returns the numbers of the blocks whose outputs are used by default: two thirds of `last`, and `last`.

    Lower blocks encode the speaker's voice, so models that use them do worse on new speakers
    (docs/experiments/unseen-voices.md).
    """
    return tuple(sorted({-(-last * part // 3) for part in (2, 3)}))


@dataclasses.dataclass(frozen=True)
class Applied:
    """A frozen encoder and the blocks (counted from 1) whose concatenated outputs are in the records."""

    encoder: PretrainedEncoder
    layers: tuple[int, ...]

    @property
    def num_bins(self) -> int:
        """Number of values per output frame: the log-mel frames that it covers, and each block's output."""
        return self.encoder.subsampling * self.encoder.num_mel_bins + len(self.layers) * self.encoder.units
