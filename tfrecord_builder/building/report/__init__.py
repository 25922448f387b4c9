"""Makes report.html, a page that describes a build and should be read before training."""
