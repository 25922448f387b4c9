"""What to work on next, in sentences, from the content of metrics.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from estimator_asr.scoring import attribution, floors

_NEXT = {
    attribution.TONE: "train on more speakers; if third tones are confused with second ones, see whether the "
    "transcripts have tone sandhi",
    attribution.INITIAL: "train on more speakers, or on noise and other bandwidths with the builder's "
    "augmentation",
    attribution.FINAL: "train on more speakers of these accents",
    attribution.SUBSTITUTION: "train on more recordings, or start from a pretrained encoder",
    attribution.INSERTION: "listen for second voices and noise, and tune the decoding on dev",
    attribution.DELETION: "listen for speech that is cut off or very fast, and tune the decoding on dev",
    attribution.LETTER: "train on more recordings with spelled letters",
    attribution.HOMOPHONE: "train the language model or its n-gram model on more text of this domain, and "
    "give names as hotwords",
    attribution.UNREACHABLE: "build with text that contains these characters, and train both models again",
}
_WROTE_NOTHING = (
    "The model writes nothing for any utterance. Look at its loss in TensorBoard, and run doctor on the data "
    "and the model: it is hardly trained, or its labels do not fit its audio."
)
_MODELS = {
    "acoustic": "of the acoustic model",
    "language": "of the language model, whose syllables were heard right",
    "unreachable": "of characters or syllables that are in no vocabulary",
}


def list_advice(values: Mapping, is_silent: bool) -> Iterator[str]:
    """Yields sentences, the most important first; none where there is nothing wrong.

    Args:
        values: content of metrics.json with `attribution` and `floors`.
        is_silent: whether all hypotheses are empty.
    """
    causes = values["attribution"]
    total = sum(each["errors"] for each in causes.values())
    if total and is_silent:
        yield _WROTE_NOTHING
    elif total:
        by_model = sorted(attribution.by_model(causes).items(), key=lambda item: -item[1])
        yield _name_models(by_model, total)
        yield _name_next(causes, by_model[0][0])
        yield from _name_reference_pinyin(values, total)
        yield from _name_oracle(values, total)


def _name_models(by_model: Sequence[tuple[str, int]], total: int) -> str:
    parts = [f"{count:,} {_MODELS[name]} ({100 * count / total:.0f} %)" for name, count in by_model if count]
    return f"{total:,} error{'s' if total > 1 else ''}: {', '.join(parts)}."


def _name_next(causes: Mapping, model: str) -> str:
    """Names the most frequent cause of the model with the most errors."""
    own = [cause for cause in causes if cause.startswith(model)]
    cause = max(own, key=lambda name: causes[name]["errors"])
    count = causes[cause]["errors"]
    most = f"Most frequent among them, {count:,}: {attribution.CAUSES[cause]}"
    return f"Work on the first of these. {most}. Next: {_NEXT[cause]}."


def _name_reference_pinyin(values: Mapping, total: int) -> Iterator[str]:
    floor = values["floors"].get(floors.REFERENCE_PINYIN)
    if floor is not None:
        yield (
            f"If each syllable had been heard right, {floor['errors']:,} errors would remain: hearing better "
            f"can bring {_format_gain(floor, total)} at most."
        )


def _name_oracle(values: Mapping, total: int) -> Iterator[str]:
    oracle = values["floors"].get(floors.N_BEST_ORACLE)
    if oracle is not None:
        yield (
            f"If the best hypothesis of each n-best list were chosen, {oracle['errors']:,} errors would "
            f"remain: ranking better can bring {_format_gain(oracle, total)} at most, of which hearing "
            "better brings a part too."
        )


def _format_gain(floor: Mapping, total: int) -> str:
    return f"{max(0.0, 100 * (1 - floor['errors'] / total)):.0f} %"
