"""Which paths are URLs of a store, such as s3:// and gs://."""

from __future__ import annotations

EXPECTED_LOCAL = (
    "expected a path on a local disk or a mounted volume; copy from or to an object store with its own tool, "
    "such as gcloud storage cp or aws s3 cp"
)


def is_remote(path: str) -> bool:
    """Returns whether the path has a scheme."""
    return "://" in path
