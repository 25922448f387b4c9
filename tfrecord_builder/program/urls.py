"""Recognises remote paths, that is, URLs with a scheme such as s3:// or gs://."""

from __future__ import annotations

EXPECTED_LOCAL = (
    "expected a path on a local disk or a mounted volume; copy from or to an object store with its own tool, "
    "such as gcloud storage cp or aws s3 cp"
)


def is_remote(path: str) -> bool:
    """Returns True if a path is a URL with a scheme."""
    return "://" in path
