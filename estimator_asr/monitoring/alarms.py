"""When a training looks broken: rules over a few recent figures, each with one sentence and one command.

A rule takes the readings so far and gives a sentence, or None. It looks only at readings after the point from
which its figure means something, and wants several in a row: training is noisy, and a watchdog that cries
wolf is switched off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Optional

from estimator_asr.monitoring import readings as readings_lib

# A token takes a frame of 40 ms at least; a token every four seconds is slower than any speech.
BLANK_SHARE = 0.99
# Healthy models come from below to 0.8 and more within the first epochs.
LENGTH_RATIOS = (0.5, 1.5)
# In a batch of different sentences a healthy model repeats itself at most among the shortest; half of the
# hypotheses cannot be wrongly the same with fewer errors than that.
REPEATED_SHARE = 0.5
# Units with a ReLU are silent for some 50 % of the inputs, but hardly any for a whole batch.
ZERO_SHARE = 0.9
# The builder leaves such utterances out, so a tenth of them are no accident.
TOO_LONG_SHARE = 0.1
USED_LABEL_SHARE = 0.5
# A loss that falls less over the whole span will not arrive.
FALL = 0.002
# One that ever fell has come below this share of where it was after the warm-up.
EVER_FELL = 0.95
# A flat loss below this error rate, or behind a rate that has cooled so far, is what the end looks like.
LEARNED_ERROR_RATE = 0.1
COOLED = 0.2
# Different batches give different losses; so many equal ones are no chance.
EQUAL_LOSSES = 20
# For what does not depend on how far the training is.
SHORT_ROW = 3
_FORMS = {
    "one-hot": "labels look one-hot (each utterance has zeros and a single 1)",
    "equal": "all labels are the same id",
}


def all_blank(readings: Sequence[readings_lib.Reading], context: readings_lib.Context) -> Optional[str]:
    """Nothing but blanks, long after the warm-up."""
    shares = readings_lib.last(readings, "blank-share", readings_lib.IN_A_ROW, context.settled_step)
    if not shares or min(shares) < BLANK_SHARE:
        return None
    return (
        f"{100 * shares[-1]:.1f} % of the frames are blank, so hypotheses are empty; likely the learning "
        "rate is far off, or labels do not belong to the audio; see whether one batch can be learned by "
        f"heart: {context.overfit_command}"
    )


def wrong_length(readings: Sequence[readings_lib.Reading], context: readings_lib.Context) -> Optional[str]:
    """Hypotheses much shorter or longer than the references, late in training."""
    ratios = readings_lib.last(readings, "length-ratio", readings_lib.IN_A_ROW, context.late_step)
    shortest, longest = LENGTH_RATIOS
    if not ratios or _is_blank(readings) or not (max(ratios) < shortest or min(ratios) > longest):
        return None
    is_short = ratios[-1] < shortest
    happens = "tokens are dropped" if is_short else "noise is written down"
    return (
        f"hypotheses have {ratios[-1]:.2f} tokens for one of the references; likely {happens}, as where "
        f"transcripts hold {'more' if is_short else 'less'} than is said; lay both beside each other: "
        f"{context.evaluate_command}"
    )


def repeated(readings: Sequence[readings_lib.Reading], context: readings_lib.Context) -> Optional[str]:
    """The same hypothesis for utterances that say different things."""
    shares = readings_lib.last(readings, "repeated-share", readings_lib.IN_A_ROW, context.settled_step)
    error_rate = readings_lib.mean_figures(readings).get(context.error_rate, 0.0)
    if not shares or _is_blank(readings) or min(shares) < REPEATED_SHARE or error_rate < REPEATED_SHARE:
        return None
    return (
        f"{100 * shares[-1]:.0f} % of the utterances have the hypothesis of another one that says something "
        "else; likely the model does not hear the input, because features and labels do not belong together "
        f"or the learning rate is too high; see whether one batch can be learned by heart: "
        f"{context.overfit_command}"
    )


def zero_gradients(readings: Sequence[readings_lib.Reading], context: readings_lib.Context) -> Optional[str]:
    """Most weights get no gradient, though there is a loss."""
    shares = readings_lib.last(readings, "gradient-zero-share", SHORT_ROW)
    if not shares or min(shares) < ZERO_SHARE or not any(readings[-1].losses):
        return None
    return (
        f"{100 * shares[-1]:.0f} % of the gradients are exactly zero; likely units that are silent for every "
        "input, or features that are constant; see which weights, in TensorBoard: "
        f"{context.train_command} --histogram_steps={context.constant_loss_steps}"
    )


def odd_labels(readings: Sequence[readings_lib.Reading], context: readings_lib.Context) -> Optional[str]:
    """Labels that are no lists of different token ids."""
    forms = {reading.label_form for reading in readings[-SHORT_ROW:]}
    if len(readings) < SHORT_ROW or len(forms) > 1 or forms == {""}:
        return None
    return (
        f"{_FORMS[forms.pop()]}, expected token ids; likely the records were written by another program or "
        "with another vocabulary; compare a record with its text: "
        f"{context.show_command}"
    )


def unusable_labels(readings: Sequence[readings_lib.Reading], context: readings_lib.Context) -> Optional[str]:
    """Labels that teach nothing: more of them than frames, or no character to choose."""
    too_long = readings_lib.last(readings, "too-long-share", SHORT_ROW)
    used = readings_lib.last(readings, "used-label-share", SHORT_ROW)
    if too_long and min(too_long) >= TOO_LONG_SHARE:
        return (
            f"{100 * too_long[-1]:.0f} % of the utterances have more labels than frames after subsampling "
            "and teach nothing; likely transcripts of other recordings, or audio that was cut; list the "
            f"worst: {context.doctor_command}"
        )
    if used and max(used) <= USED_LABEL_SHARE:
        return (
            f"only {100 * used[-1]:.0f} % of the characters can be learned, the others have no token of "
            f"their own; likely texts and pinyin that do not pair; list the counts: {context.doctor_command}"
        )
    return None


def constant_loss(readings: Sequence[readings_lib.Reading], context: readings_lib.Context) -> Optional[str]:
    """The very same loss for different batches."""
    losses = [loss for reading in readings[-EQUAL_LOSSES:] for loss in reading.losses][-EQUAL_LOSSES:]
    error_rate = readings[-1].figures.get(context.error_rate, 1.0)
    if len(losses) < EQUAL_LOSSES or len(set(losses)) > 1 or (losses[0] == 0 and error_rate == 0):
        return None
    return (
        f"the loss has been exactly {losses[0]:.6g} for {EQUAL_LOSSES} steps; likely every batch is the same "
        "to the model, because features are constant or no label can be used; check the data: "
        f"{context.verify_command}"
    )


def flat_loss(readings: Sequence[readings_lib.Reading], context: readings_lib.Context) -> Optional[str]:
    """A loss whose mean over the span is not below the best such mean of before, while errors are many."""
    now, span = readings[-1], context.span
    warm = [reading for reading in readings if reading.step > context.warmup_steps]
    means = readings_lib.window_means(warm, span)
    before = [mean for last, mean in means if last <= now.step - span]
    if not before or means[-1][1] < (1 - FALL) * min(before) or _looks_done(readings, context):
        return None
    rate = now.figures.get("learning-rate", context.peak_rate)
    seen = (
        f"the loss has not fallen for {span} steps ({means[-1][1]:.3f} per label, {min(before):.3f} before)"
    )
    if min(before) > EVER_FELL * means[0][1]:
        return (
            f"{seen} and hardly before; likely the learning rate, now {rate:.2g}, is far off, or labels do "
            f"not belong to the input; see whether a batch can be learned by heart: {context.overfit_command}"
        )
    return (
        f"{seen}; likely the learning rate, now {rate:.2g}, is too high by now, or the model is too small; "
        f"start again with a third of the rate: {context.slower_command}"
    )


RULES: dict[str, Callable] = {
    "labels": odd_labels,
    "unusable-labels": unusable_labels,
    "constant-loss": constant_loss,
    "zero-gradients": zero_gradients,
    "all-blank": all_blank,
    "repeated": repeated,
    "length": wrong_length,
    "flat-loss": flat_loss,
}


def _is_blank(readings):
    return readings[-1].figures.get("blank-share", 0.0) >= BLANK_SHARE


def _looks_done(readings, context):
    figures = readings_lib.mean_figures(readings)
    is_cooled = figures.get("learning-rate", context.peak_rate) < COOLED * context.peak_rate
    return is_cooled or figures.get(context.error_rate, 1.0) <= LEARNED_ERROR_RATE or _is_blank(readings)
