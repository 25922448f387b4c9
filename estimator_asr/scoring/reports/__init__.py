"""The report of an evaluation and the comparison of several: metrics.json, texts and report.html."""
