"""Observes a training without being imported by it.

observations collects what each step shows; progress, tensorboard, hparams and prediction_samples display
it, and watchdog compares it with the table of alarms. diagnostics/ explains a training that went wrong, and
hands the loop all these hooks (observers).
"""
