"""Describes metrics.json in words: error rates, and what to work on next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Optional

from estimator_asr.scoring import attribution, delays, error_rate, utterances
from estimator_asr.scoring.reports import scored_split

_NEXT = {
    attribution.TONE: "train on more speakers; if third tones are confused with second tones, check whether "
    "the transcripts have tone sandhi",
    attribution.INITIAL: "train on more speakers, or add noise and other bandwidths with the builder's "
    "augmentation",
    attribution.FINAL: "train on more speakers with these accents",
    attribution.SUBSTITUTION: "train on more recordings, or start from a pretrained encoder",
    attribution.INSERTION: "listen for background voices and noise, and tune the decoding on dev",
    attribution.DELETION: "listen for speech that is cut off or very fast, and tune the decoding on dev",
    attribution.LETTER: "train on more recordings with spelled letters",
    attribution.HOMOPHONE: "train the language model or its n-gram model on more text of this domain, and "
    "pass names as hotwords",
    attribution.UNREACHABLE: "build with text that contains these characters, and train both models again",
}
_GAINS = {  # a condition under which a floor would be reached, and what the floor shows
    scored_split.REFERENCE_PINYIN: (
        "every syllable had been recognised correctly",
        "a better acoustic model can remove at most {gain} of the errors",
    ),
    scored_split.N_BEST_ORACLE: (
        "the best hypothesis of each n-best list had been chosen",
        "better ranking can remove at most {gain} of the errors, some of which a better acoustic model "
        "removes too",
    ),
}
_MANY_ERRORS = 0.5  # above this error rate, adding data helps more than fixing individual causes
_TOO_LITTLE = (
    "Most likely it has seen too little data ({}), or different data. Train it longer, or on more data "
    "like this"
)
_OTHERWISE = (
    "If that does not help, the labels may not match the audio: check the loss in TensorBoard, and run "
    "doctor on the model and the data"
)
_MODELS = {
    "acoustic": "of the acoustic model",
    "language": "of the language model, given correct syllables",
    "unreachable": "of characters or syllables outside the vocabulary",
}


def format_name(measure: str) -> str:
    """Returns the name of a measure in words."""
    return measure.replace("_", " ")


def describe_speakers(values: Mapping) -> str:
    """Returns the number of speakers from metrics.json, or a sentence if some speakers are unknown."""
    unknown = values["num_utterances_of_unknown_speakers"]
    if not unknown:
        return str(values["num_speakers"])
    return (
        f"speaker unknown for {unknown} of {values['num_utterances']} utterances, each of which counts as a "
        "separate speaker; if a few people spoke them all, the intervals are too narrow"
    )


def describe_delay(delay: Mapping) -> str:
    """Describes emission_delay from metrics.json in words."""
    if not delay["tokens"]:
        return "emission delay: the transcripts from chunks and from whole recordings have no token in common"
    seconds = ", ".join(f"{name} % within {delay[f'p{name}']:.2f} s" for name in delays.PERCENTILES)
    return (
        f"emission delay of {_count(delay['tokens'], 'token')}: {seconds} after the frames in which the "
        "model recognises them in whole recordings, assuming that computation takes no time and that the "
        "end of a recording is known at once"
    )


def format_rate(rate: Mapping) -> str:
    """Formats an error rate from metrics.json, for example `1.25 % (95 % interval 0.80 to 1.90 %)`."""
    text = format_percent(rate["rate"])
    if rate["confidence_interval"] is not None:
        low, high = rate["confidence_interval"]
        text += f" ({100 * error_rate.CONFIDENCE:.0f} % interval {100 * low:.2f} to {100 * high:.2f} %)"
    return text


def format_percent(fraction: Optional[float]) -> str:
    """Returns a fraction as a percentage; `no reference` if it is None."""
    return "no reference" if fraction is None else f"{100 * fraction:.2f} %"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def list_advice(values: Mapping, is_silent: bool) -> Iterator[str]:
    """Yields sentences of advice, most important first; yields nothing if there are no errors.

    Args:
        values: contents of metrics.json, including `attribution` and `floors`.
        is_silent: True if all hypotheses are empty.
    """
    causes = values["attribution"]
    total = sum(cause["errors"] for cause in causes.values())
    steps = _count(values["global_step"], "step") if "global_step" in values else "few steps"
    too_little = _TOO_LITTLE.format(steps)
    if total and is_silent:
        yield f"The model outputs nothing for any utterance. {too_little}. {_OTHERWISE}."
    elif total:
        (*_, rate) = 0.0, *(values[name]["rate"] or 0.0 for name in utterances.MEASURES if name in values)
        if rate > _MANY_ERRORS:
            yield f"The model is mostly wrong. {too_little}, before you look at individual causes."
        by_model = sorted(attribution.by_model(causes).items(), key=lambda item: -item[1])
        parts = [
            f"{count:,} {_MODELS[name]} ({100 * count / total:.0f} %)" for name, count in by_model if count
        ]
        yield f"{_count(total, 'error')}: {', '.join(parts)}."
        own = [cause for cause in causes if cause.startswith(by_model[0][0])]
        cause = max(own, key=lambda name: causes[name]["errors"])
        number = causes[cause]["errors"]
        most = f"The most frequent cause among them ({number:,}): {attribution.CAUSES[cause]}"
        if rate <= _MANY_ERRORS or cause == attribution.UNREACHABLE:
            yield f"Start with the errors {_MODELS[by_model[0][0]]}. {most}. Next: {_NEXT[cause]}."
        for name, (condition, part) in _GAINS.items():
            remaining = values["floors"][name]["errors"] if name in values["floors"] else total
            gain = round(100 * (1 - remaining / total))
            if gain > 0:
                count = _count(remaining, "error")
                yield f"If {condition}, {count} would remain: {part.format(gain=f'{gain} %')}."
