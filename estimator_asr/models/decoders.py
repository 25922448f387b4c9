"""The decoders by name. A new one is a file and an entry here.

Each is a function of AcousticConfig, CTC logits float32 [batch, num_frames, num_classes] with the blank as
the last class, and num_frames int32 [batch] that returns decoding.Hypotheses.
"""

from __future__ import annotations

from estimator_asr.models import decoding

DECODERS = {"greedy": lambda config, logits, num_frames: decoding.greedy_ctc(logits, num_frames)}
