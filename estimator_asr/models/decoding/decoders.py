"""The decoders by name. A new one needs a file beside this one and an entry here.

A decoder gets DecodeConfig, CTC logits float32 [batch, num_frames, num_classes] with the blank as the last
class and at least one frame, num_frames int32 [batch] (frames at or beyond it are ignored) and scorers; it
returns Hypotheses.
"""

from __future__ import annotations

from estimator_asr.models.decoding import greedy, prefix_beam_search

DECODERS = {"beam": prefix_beam_search.prefix_beam_search, "greedy": greedy.greedy_ctc}
