"""report.html, the page about a build that people read before they train."""
