"""Monitoring: observes training; the training package does not import this package.

observations stores the metrics of recent steps. progress, tensorboard, hparams and prediction_samples display
results, and watchdog checks the rules in alarms. diagnostics/ finds out why training went wrong; its module
observers passes the hooks of monitoring and diagnostics to the training loop.
"""
