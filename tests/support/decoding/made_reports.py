"""Made-up results of a cascade, in the size of AISHELL-1's test set or less."""

from __future__ import annotations

import numpy as np

from estimator_asr.scoring import attribution, utterances
from estimator_asr.scoring.reports import scored_split

# Characters and their syllables; the first two of each row sound alike.
ROWS = (("是", "事", "shi4"), ("市", "式", "shi4"), ("他", "她", "ta1"), ("在", "再", "zai4"))
CHARACTERS = {text: row[2] for row in ROWS for text in row[:2]}


def make(
    num_utterances: int, num_speakers: int = 20, wrong: float = 0.1, seed: int = 0
) -> scored_split.ScoredSplit:
    """Returns a split whose utterances have 8 to 20 characters, of which a part is wrong."""
    rng = np.random.default_rng(seed)
    tokens, characters, outputs = [], [], []
    for index in range(num_utterances):
        name, speaker = f"BAC009S{index:04d}W{index % 497:04d}", f"S{index % num_speakers:04d}"
        reference = rng.choice(list(CHARACTERS), rng.integers(8, 21))
        hypothesis = np.where(rng.random(len(reference)) < wrong, rng.choice(list(CHARACTERS)), reference)
        spoken = (" ".join(CHARACTERS[text] for text in texts) for texts in (reference, hypothesis))
        texts = "".join(reference), "".join(hypothesis)
        tokens.append(utterances.score(utterances.TOKEN_ERROR_RATE, name, speaker, *spoken))
        characters.append(utterances.score(utterances.CHARACTER_ERROR_RATE, name, speaker, *texts))
        n_best = [{"transcript": texts[1], "score": -1.0}, {"transcript": texts[0], "score": -2.0}]
        outputs.append({"utterance_id": name, "transcript": texts[1], "confidence": 0.9, "n_best": n_best})
    measures = {utterances.TOKEN_ERROR_RATE: tokens, utterances.CHARACTER_ERROR_RATE: characters}
    known = attribution.KnownVocabularies(characters=frozenset(CHARACTERS) - {"式"})
    return scored_split.ScoredSplit({"model": "made up"}, measures, outputs=outputs, vocabularies=known)
