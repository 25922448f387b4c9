"""The encoders by name. A new one is a file and an entry here (encoding.Encoder)."""

from __future__ import annotations

from estimator_asr.models import cnn_encoder, encoding, transformer_encoders

ENCODERS = {
    "conformer": encoding.Encoder(transformer_encoders.conformer, subsampling=4),
    "transformer": encoding.Encoder(transformer_encoders.transformer, subsampling=4),
    "cnn": encoding.Encoder(cnn_encoder.cnn, subsampling=4),
}
