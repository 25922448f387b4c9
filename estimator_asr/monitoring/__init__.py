"""Monitoring: observes training, which does not import this package.

observations holds the metrics of recent steps; progress, tensorboard, hparams and prediction_samples display
results, and watchdog checks the rules in alarms. diagnostics/ explains training that went wrong, and passes
all these hooks to the training loop (observers).
"""
