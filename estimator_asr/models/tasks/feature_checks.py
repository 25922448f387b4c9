"""Checks whether an encoder can read the data's features, can stream, and can train its upper blocks."""

from __future__ import annotations

from typing import Optional

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import acoustic, encoders
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend, pretrained_encoder


def check_features(
    name: str, applied: Optional[pretrained_encoder.Applied], features: frontend.FrontendConfig
) -> None:
    """Raises UserError if the data or weights are for another encoder, or if the data are waveforms."""
    if applied and applied.encoder.family != name:
        family = applied.encoder.family
        kind = "the data contain outputs" if features.encoder else "--warm_start_from has weights"
        raise errors.UserError(f"train: --encoder is {name}, but {kind} of {family}; pass --encoder={family}")
    if features.frontend == "waveform" and not features.encoder:
        raise errors.UserError(
            "train: the data contain waveforms instead of an encoder's outputs; encode the data first "
            "(python -m estimator_asr.encode)"
        )


def check_chunks(
    chosen: config_lib.AcousticConfig, entry: encoders.Encoder, features: frontend.FrontendConfig
) -> None:
    """Raises UserError if chunk_frames is set, but the encoder or the features do not support streaming."""
    if chosen.chunk_frames and not entry.can_stream:
        names = [name for name, encoder in acoustic.ENCODERS.items() if encoder.can_stream]
        raise errors.UserError(
            f"train: --encoder is {chosen.encoder}, but --chunk_frames={chosen.chunk_frames} needs "
            f"{' or '.join(names)}, because {chosen.encoder} needs whole recordings; leave out "
            "--chunk_frames (serve returns interim results with any model)"
        )
    if chosen.chunk_frames and features.frontend in frontend.PRETRAINED_MEL_BINS:
        raise errors.UserError(
            f"train: features are {features.frontend}, but --chunk_frames={chosen.chunk_frames} needs "
            "log_mel or log_spectrogram, because other features depend on the whole recording; "
            "build the data with --frontend=log_mel"
        )
    if chosen.chunk_frames and features.window_samples < features.hop_samples:
        raise errors.UserError(
            f"train: features have --window_ms={features.window_ms:g} and --hop_ms={features.hop_ms:g}, but "
            f"--chunk_frames={chosen.chunk_frames} needs a window at least as long as the hop; build the "
            "data with other flags"
        )


def check_pretrained(
    chosen: config_lib.AcousticConfig,
    applied: Optional[pretrained_encoder.Applied],
    features: frontend.FrontendConfig,
) -> None:
    """Raises UserError if the encoder is missing, cannot read the data, or cannot train its upper blocks."""
    if applied is None:
        raise errors.UserError(
            f"train: --encoder={chosen.encoder} needs encoded data or pretrained weights; run python -m "
            "estimator_asr.encode first, or pass --warm_start_from=WEIGHTS"
        )
    frontend.check_input("train", features, applied.encoder)
    last = applied.encoder.layers - chosen.trainable_blocks
    if chosen.trainable_blocks and last not in applied.layers:
        expected = " or ".join(str(applied.encoder.layers - layer) for layer in reversed(applied.layers))
        holder = "the data contain" if features.encoder else "--warm_start_from reads"
        raise errors.UserError(
            f"train: --trainable_blocks is {chosen.trainable_blocks}, expected {expected}, because {holder} "
            f"the outputs of blocks {','.join(map(str, applied.layers))} of {applied.encoder.layers}, "
            f"but not of block {last}; choose blocks with estimator_asr.encode --layers"
        )
