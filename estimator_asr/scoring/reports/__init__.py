"""Reports of evaluations, and comparisons of several reports: metrics.json, texts and report.html."""
