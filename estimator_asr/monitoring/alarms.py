"""Alarms of the watchdog: a table of kinds, each with a rule and the sentence that it raises.

A rule takes the observations and returns the values that its sentence shows, or None where all is well. It
ignores steps before its metric means something, and requires several in a row: training is noisy, and users
switch off a watchdog that raises false alarms. A sentence ends with a command of observations.TrainingFacts.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import NamedTuple, Optional

from estimator_asr.monitoring import observations

# A token takes at least one frame of 40 ms; one token every four seconds is slower than any speech.
BLANK_FRACTION = 0.99
# ReLU units are inactive for about half of the inputs, but hardly any is for a whole batch.
ZERO_FRACTION = 0.9
# A loss that falls by less over the whole span makes no progress; one that ever fell is below this fraction
# of its value after the warm-up.
_MIN_FALL = 0.002
_EVER_FELL = 0.95
# Below this error rate, or this fraction of the peak learning rate, a flat loss is normal.
_LEARNED_ERROR_RATE = 0.1
_COOLED = 0.2
# Different batches have different losses; this many equal ones are no coincidence.
_NUM_EQUAL_LOSSES = 20
# Masks and dropout add errors in training, so a rate this low means that the model has learned.
_TRAIN_ERROR_RATE = 0.2
_ERROR_RATE_GAP = 0.3  # speakers of one corpus differ by less
_EVALUATIONS = 2  # with the gap, in a row
_EMPTY_LENGTH_RATIO = 0.01

Observations = observations.Observations


class Alarm(NamedTuple):
    """A rule, and its sentence: a format string of its values, the training's commands, and `little`."""

    rule: Callable[[Observations], Optional[dict]]
    sentence: str

    def check(self, observed: Observations) -> Optional[str]:
        """Returns the sentence, None where all is well."""
        values = self.rule(observed)
        words = observed.training.commands()
        return None if values is None else self.sentence.format(**values, **words, little=observed.little)


def _limit(tag, compare, limit, after=None, unless=None):
    """Returns the rule that a metric is at or beyond a limit in each of the last observed steps.

    `compare` is of the module operator. `after` returns the step from which the metric means something, None
    for the first one; where `unless` is true it says nothing.
    """

    def rule(observed):
        begin, count = (-1, 3) if after is None else (after(observed), observations.IN_A_ROW)
        values = observed.last(tag, count, begin)
        if not values or not all(compare(value, limit) for value in values) or (unless and unless(observed)):
            return None
        return {"value": values[-1], "percent": _percent(values[-1])}

    return rule


def _percent(fraction):
    return f"{100 * fraction:.3g} %"


def _is_blank(observed):
    return observed.newest("blank-fraction", 0.0) >= BLANK_FRACTION


def _is_mostly_right(observed):
    """Half of the hypotheses cannot be equal by mistake with an error rate below one half."""
    return _is_blank(observed) or observed.means().get(observed.training.error_rate, 0.0) < 0.5


def _has_no_loss(observed):
    return not any(observed.steps[-1].losses)


def _constant_loss(observed):
    """Different batches have the very same loss."""
    recent = observed.steps[-_NUM_EQUAL_LOSSES:]
    losses = [loss for step in recent for loss in step.losses][-_NUM_EQUAL_LOSSES:]
    if len(losses) < _NUM_EQUAL_LOSSES or len(set(losses)) > 1:
        return None
    is_learned = losses[0] == 0 and observed.newest(observed.training.error_rate, 1.0) == 0
    return None if is_learned else {"loss": losses[0], "count": _NUM_EQUAL_LOSSES}


def _flat_loss(observed, ever_fell):
    """The mean loss over the span is not below the best such mean before, while errors are many."""
    training = observed.training
    warm = [step for step in observed.steps if step.number > training.warmup_steps]
    means = observations.window_means(warm, training.span)
    before = [mean for last, mean in means if last <= observed.steps[-1].number - training.span]
    if not before or means[-1][1] < (1 - _MIN_FALL) * min(before) or _looks_done(observed):
        return None
    if (min(before) <= _EVER_FELL * means[0][1]) != ever_fell:
        return None
    rate = observed.newest("learning-rate", training.peak_rate)
    return {"span": training.span, "loss": means[-1][1], "before": min(before), "rate": rate}


def _looks_done(observed):
    means, peak_rate = observed.means(), observed.training.peak_rate
    is_cooled = means.get("learning-rate", peak_rate) < _COOLED * peak_rate
    is_learned = means.get(observed.training.error_rate, 1.0) <= _LEARNED_ERROR_RATE
    return is_cooled or is_learned or _is_blank(observed)


def _dev_nan(observed):
    dev = observed.evaluations[-1].dev
    tags = [tag for tag, value in sorted(dev.items()) if tag.endswith("loss") and math.isnan(value)]
    return {"tags": ", ".join(tags)} if tags else None


def _dev_empty(observed):
    last = observed.evaluations[-1]
    ratio = last.dev.get("length-ratio", 1.0)
    is_settled = last.step > observed.training.settled_step
    return {"percent": _percent(ratio)} if is_settled and ratio <= _EMPTY_LENGTH_RATIO else None


def _decoding_gap(observed):
    """With teacher forcing the decoder predicts the next token, but decoded hypotheses are wrong."""
    late = [item.dev for item in observed.evaluations if item.step > observed.training.late_step]
    tags = {"teacher-forced-error-rate": 1.0, observed.training.error_rate: 0.0}
    pairs = [[dev.get(tag, default) for tag, default in tags.items()] for dev in late]
    return _newest_gap(pairs, lambda forced, decoded: decoded >= 2 * forced)


def _dev_gap(observed):
    """Few errors in training, many on dev."""
    tag, settled = observed.training.error_rate, observed.training.settled_step
    late = [item for item in observed.evaluations if item.step > settled]
    pairs = [(item.train.get(tag, 1.0), item.dev.get(tag, 0.0)) for item in late]
    return _newest_gap(pairs, lambda train, dev: train <= _TRAIN_ERROR_RATE)


def _newest_gap(pairs, is_wide):
    last = pairs[-_EVALUATIONS:]
    gaps = [high >= low + _ERROR_RATE_GAP and is_wide(low, high) for low, high in last]
    if len(gaps) < _EVALUATIONS or not all(gaps):
        return None
    return {"low": _percent(last[-1][0]), "high": _percent(last[-1][1])}


_SETTLED = operator.attrgetter("training.settled_step")
_LATE = operator.attrgetter("training.late_step")
_FLAT = "the loss has not fallen for {span} steps ({loss:.3f} per label, {before:.3f} before)"
_MEMORISE = "test whether one batch can be memorised: {overfit}"
_COMPARE = "compare references and hypotheses: {evaluate}"
STEP_ALARMS = {
    # The builder leaves such utterances out, so a tenth of them is no accident.
    "too-long-labels": Alarm(
        _limit("too-long-fraction", operator.ge, 0.1),
        "{percent} of the utterances have more labels than frames after subsampling, so CTC cannot learn "
        "them; likely transcripts of other recordings, or truncated audio; list the worst: {doctor}",
    ),
    "unpaired-characters": Alarm(
        _limit("used-label-fraction", operator.le, 0.5),
        "only {percent} of the characters can be learned, the others have no token of their own; likely "
        "texts and pinyin do not match; list the counts: {doctor}",
    ),
    "constant-loss": Alarm(
        _constant_loss,
        "the loss has been exactly {loss:.6g} for {count} steps; likely every batch looks the same to the "
        "model, because features are constant or no label can be used; check the data: {verify}",
    ),
    "zero-gradients": Alarm(
        _limit("gradient-zero-fraction", operator.ge, ZERO_FRACTION, unless=_has_no_loss),
        "{percent} of the gradients are exactly zero; likely units that are inactive for every input, or "
        "constant features; see which weights, in TensorBoard: {histograms}",
    ),
    "all-blank": Alarm(
        _limit("blank-fraction", operator.ge, BLANK_FRACTION, _SETTLED),
        "{percent} of the frames are blank, so hypotheses are empty; likely {little}the learning rate is far "
        f"off, or the labels do not belong to the audio; {_MEMORISE}",
    ),
    "repeated": Alarm(
        _limit("repeated-fraction", operator.ge, 0.5, _SETTLED, unless=_is_mostly_right),
        "{percent} of the utterances have the same hypothesis as one with another reference; likely "
        "{little}the model ignores its input, because features and labels do not belong together or the "
        f"learning rate is too high; {_MEMORISE}",
    ),
    # Healthy models rise from below to 0.8 and more within the first epochs.
    "short-hypotheses": Alarm(
        _limit("length-ratio", operator.lt, 0.5, _LATE, unless=_is_blank),
        "hypotheses have {value:.2f} tokens per reference token; likely {little}tokens are deleted, as "
        f"where transcripts contain more than was spoken; {_COMPARE}",
    ),
    "long-hypotheses": Alarm(
        _limit("length-ratio", operator.gt, 1.5, _LATE, unless=_is_blank),
        "hypotheses have {value:.2f} tokens per reference token; likely {little}noise is transcribed, as "
        f"where transcripts contain less than was spoken; {_COMPARE}",
    ),
    "flat-loss": Alarm(
        lambda observed: _flat_loss(observed, ever_fell=True),
        f"{_FLAT}; likely {{little}}the learning rate, now {{rate:.2g}}, is too high, or the model is too "
        "small; train a new model at a third of the rate: {slower}",
    ),
    "loss-never-fell": Alarm(
        lambda observed: _flat_loss(observed, ever_fell=False),
        f"{_FLAT} and hardly fell before; likely {{little}}the learning rate, now {{rate:.2g}}, is far "
        f"off, or the labels do not belong to the input; {_MEMORISE}",
    ),
}
DEV_ALARMS = {
    "dev-nan": Alarm(
        _dev_nan,
        "{tags} on dev: NaN, so this checkpoint cannot become the best; likely features of dev or the "
        "weights contain NaN or Inf; check the data: {verify}",
    ),
    "dev-empty": Alarm(
        _dev_empty,
        "on dev, hypotheses have {percent} as many tokens as the references, so they are empty; likely "
        f"{{little}}the learning rate is far off, or the labels do not belong to the audio; {_MEMORISE}",
    ),
    "decoding-gap": Alarm(
        _decoding_gap,
        "on dev, {high} of the decoded tokens are wrong, but {low} with teacher forcing; likely "
        "{little}the decoder has memorised the texts, and the CTC head has not learned the audio; train a "
        "new model with more weight on CTC: {more_ctc}",
    ),
    "dev-gap": Alarm(
        _dev_gap,
        "{low} errors in training, {high} on dev; likely {little}the model overfits, or dev was recorded or "
        "transcribed differently; look for speakers and sentences that stand out: {evaluate}",
    ),
}
