"""The experiment: every setting once, config.json, the model directory, task specs."""
