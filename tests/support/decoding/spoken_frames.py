"""Segments whose frames are made from syllables of 200 ms, for the alignment with text."""

import numpy as np

from estimator_asr.serving.alignment import frame_scores
from estimator_asr.serving.transcripts import captions
from tfrecord_builder.data import vocabulary

FRAME = 0.04  # seconds
SYLLABLES = "jin1 tian1 de5 qi4 zhen1 hao3 wo3 men5 qu4 gong1 yuan2 ba5 ta1 shuo1 bu4 yao4".split()
VOCABULARY = vocabulary.Vocabulary(["<unk>", *SYLLABLES])
BLANK = len(VOCABULARY.tokens)


def speak(*parts, start=0.0, store=None):
    """Returns a segment in which syllables or pauses in seconds follow each other."""
    frames = []
    for part in parts:
        if isinstance(part, str):
            for syllable in part.split():
                frames += [VOCABULARY.tokens.index(syllable)] * 2 + [BLANK] * 3
        else:
            frames += [BLANK] * round(part / FRAME)
    logits = 8 * np.eye(BLANK + 1)[frames]
    log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    places = [i for i, best in enumerate(frames) if best != BLANK and frames[i - 1] != best]
    tokens = [VOCABULARY.tokens[frames[i]] for i in places]
    store = store or frame_scores.FrameStore(BLANK + 1)
    scores = frame_scores.SegmentScores(
        store, store.add(log_probs), len(frames), FRAME, tokens, np.array(places, int), VOCABULARY
    )
    return captions.TranscriptSegment(start, start + FRAME * len(frames), {"scores": scores})
