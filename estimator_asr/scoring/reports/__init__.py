"""Evaluation reports (metrics.json, texts and report.html), and comparisons of several reports."""
