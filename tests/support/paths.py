"""Directories of the repository."""

from __future__ import annotations

import pathlib

SUPPORT = pathlib.Path(__file__).resolve().parent
ROOT = SUPPORT.parent.parent
