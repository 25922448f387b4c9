"""A toy loss in one file: a task whose loss is three times that of CTC."""

from __future__ import annotations

from estimator_asr.models.tasks import acoustic_task, metrics


class TripleCtc(acoustic_task.Acoustic):
    def losses(self, outputs, features, labels, training) -> metrics.Losses:
        ctc = acoustic_task.ctc_part(outputs, labels)
        return metrics.Losses(3 * ctc.numerator, {"ctc-loss": ctc}, ctc.denominator)
