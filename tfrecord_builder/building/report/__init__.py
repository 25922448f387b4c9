"""Makes report.html, a page about a build to read before training."""
