"""The watchdog's alarms: a rule and a sentence for each kind of alarm.

A rule examines the observations and returns the values for its sentence, or None if all is well. Most rules
ignore early steps, in which their metric does not mean anything yet, and require several bad observations in
a row, because training is noisy and users turn off a watchdog that raises false alarms. Each sentence ends
with a command from observations.TrainingFacts.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import NamedTuple, Optional

from estimator_asr.monitoring import observations

# If 99 % of frames are blank, there is at most one token per 4 s (100 frames of 40 ms), too few for speech.
BLANK_FRACTION = 0.99
# A ReLU unit is inactive for about half of its inputs, but hardly any unit is inactive for a whole batch.
ZERO_FRACTION = 0.9
# A loss that falls by less than this fraction within TrainingFacts.span steps counts as flat.
_MIN_FALL = 0.002
# The loss counts as having fallen if a mean ever fell to this fraction of the first mean after the warm-up.
_EVER_FELL = 0.95
# A flat loss is normal once the error rate, or the ratio of the learning rate to its peak, is this low.
_LEARNED_ERROR_RATE = 0.1
_COOLED = 0.2
# Different batches have different losses, so this many equal losses in a row cannot be a coincidence.
_NUM_EQUAL_LOSSES = 20
# A model has learned the training data if its error rate is this low despite masks and dropout.
_TRAIN_ERROR_RATE = 0.2
_ERROR_RATE_GAP = 0.3  # minimum gap; the error rates of speakers in one corpus differ by less
_EVALUATIONS = 2  # number of consecutive evaluations that must show the gap
_EMPTY_LENGTH_RATIO = 0.01

Observations = observations.Observations


class Alarm(NamedTuple):
    """A rule, and a sentence with fields for the rule's values, commands and Observations.little."""

    rule: Callable[[Observations], Optional[dict]]
    sentence: str

    def check(self, observed: Observations) -> Optional[str]:
        """Returns the alarm's sentence, or None if all is well."""
        values = self.rule(observed)
        commands = observed.training.commands()
        return None if values is None else self.sentence.format(**values, **commands, little=observed.little)


def _limit(tag, compare, limit, after=None, unless=None):
    """Returns a rule that raises the alarm if a metric is beyond a limit in all of the last observed steps.

    Args:
        tag: TensorBoard tag of the metric.
        compare: function from the operator module that returns True if a metric is beyond a limit.
        limit: the limit.
        after: function that returns the step after which the metric is checked; if None, always checked.
        unless: function that returns True if the alarm must not be raised.
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
    """Returns True if repeated hypotheses need no separate alarm, because they are empty or mostly right."""
    return _is_blank(observed) or observed.means().get(observed.training.error_rate, 0.0) < 0.5


def _has_no_loss(observed):
    return not any(observed.steps[-1].losses)


def _constant_loss(observed):
    """Rule: different batches all have exactly the same loss."""
    recent = observed.steps[-_NUM_EQUAL_LOSSES:]
    losses = [loss for step in recent for loss in step.losses][-_NUM_EQUAL_LOSSES:]
    if len(losses) < _NUM_EQUAL_LOSSES or len(set(losses)) > 1:
        return None
    is_learned = losses[0] == 0 and observed.newest(observed.training.error_rate, 1.0) == 0
    return None if is_learned else {"loss": losses[0], "count": _NUM_EQUAL_LOSSES}


def _flat_loss(observed, ever_fell):
    """Rule: the mean of the last `span` losses is no lower than before, and many errors remain."""
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
    """Rule: the decoder predicts tokens well with teacher forcing, but decoded hypotheses are wrong."""
    late = [item.dev for item in observed.evaluations if item.step > observed.training.late_step]
    tags = {"teacher-forced-error-rate": 1.0, observed.training.error_rate: 0.0}
    pairs = [[dev.get(tag, default) for tag, default in tags.items()] for dev in late]
    return _newest_gap(pairs, lambda forced, decoded: decoded >= 2 * forced)


def _dev_gap(observed):
    """Rule: there are few errors in training but many on dev."""
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
_FLAT = "the loss has not fallen for {span} steps (now {loss:.3f} per label, before {before:.3f})"
_MEMORISE = "test whether one batch can be memorised: {overfit}"
_COMPARE = "compare references and hypotheses: {evaluate}"
STEP_ALARMS = {
    # The builder rejects utterances with too many labels, so if 10 % still have too many, something is wrong.
    "too-long-labels": Alarm(
        _limit("too-long-fraction", operator.ge, 0.1),
        "{percent} of the utterances have more labels than frames after subsampling, so CTC cannot learn "
        "them; likely cause: transcripts that belong to other recordings, or truncated audio; to list the "
        "worst utterances, run {doctor}",
    ),
    "unpaired-characters": Alarm(
        _limit("used-label-fraction", operator.le, 0.5),
        "only {percent} of the characters can be learned, because the others are not paired with a token "
        "that can stand for them; likely cause: the texts and their pinyin do not match; to compare them, "
        "run {show}",
    ),
    "constant-loss": Alarm(
        _constant_loss,
        "the loss has been exactly {loss:.6g} for {count} steps; likely cause: every batch looks the same to "
        "the model, because features are constant or no label can be used; check the data: {verify}",
    ),
    "zero-gradients": Alarm(
        _limit("gradient-zero-fraction", operator.ge, ZERO_FRACTION, unless=_has_no_loss),
        "{percent} of the gradients are exactly zero; likely cause: units that are inactive for every input, "
        "or constant features; to see the weights in TensorBoard, run {histograms}",
    ),
    "all-blank": Alarm(
        _limit("blank-fraction", operator.ge, BLANK_FRACTION, _SETTLED),
        "{percent} of the frames are blank, so hypotheses are empty; likely cause: {little}the learning rate "
        f"is far off, or the labels do not belong to the audio; {_MEMORISE}",
    ),
    "repeated": Alarm(
        _limit("repeated-fraction", operator.ge, 0.5, _SETTLED, unless=_is_mostly_right),
        "{percent} of the utterances share a hypothesis with an utterance that has a different reference; "
        "likely cause: {little}the model ignores its input, because features and labels do not belong "
        f"together or the learning rate is too high; {_MEMORISE}",
    ),
    # A healthy model reaches 0.8 or more tokens per reference token within the first few epochs.
    "short-hypotheses": Alarm(
        _limit("length-ratio", operator.lt, 0.5, _LATE, unless=_is_blank),
        "hypotheses have {value:.2f} tokens per reference token; likely cause: {little}the model omits "
        f"tokens, for example because transcripts contain more than was spoken; {_COMPARE}",
    ),
    "long-hypotheses": Alarm(
        _limit("length-ratio", operator.gt, 1.5, _LATE, unless=_is_blank),
        "hypotheses have {value:.2f} tokens per reference token; likely cause: {little}the model transcribes "
        f"noise, for example because transcripts contain less than was spoken; {_COMPARE}",
    ),
    "flat-loss": Alarm(
        lambda observed: _flat_loss(observed, ever_fell=True),
        f"{_FLAT}; likely cause: {{little}}the learning rate, now {{rate:.2g}}, is too high, or the model is "
        "too small; train a new model at a third of the rate: {slower}",
    ),
    "loss-never-fell": Alarm(
        lambda observed: _flat_loss(observed, ever_fell=False),
        f"{_FLAT} and hardly fell before; likely cause: {{little}}the learning rate, now {{rate:.2g}}, is "
        f"far off, or the labels do not belong to the input; {_MEMORISE}",
    ),
}
DEV_ALARMS = {
    "dev-nan": Alarm(
        _dev_nan,
        "metrics on dev are NaN ({tags}), so this checkpoint cannot become the best; likely cause: the "
        "weights or the features of dev contain NaN or Inf; check the data: {verify}",
    ),
    "dev-empty": Alarm(
        _dev_empty,
        "the model outputs hardly anything on dev ({percent} as many tokens as the references have); likely "
        "cause: {little}the learning rate is far off, or the labels do not belong to the audio; "
        f"{_MEMORISE}",
    ),
    "decoding-gap": Alarm(
        _decoding_gap,
        "on dev, {high} of the decoded tokens are wrong, but only {low} with teacher forcing; likely cause: "
        "{little}the decoder has memorised the texts, and the CTC head has not learned the audio; train a "
        "new model with more weight on CTC: {more_ctc}",
    ),
    "dev-gap": Alarm(
        _dev_gap,
        "the error rate is {low} in training but {high} on dev; likely cause: {little}the model overfits, or "
        "dev was recorded or transcribed differently; look for unusual speakers and sentences: {evaluate}",
    ),
}
