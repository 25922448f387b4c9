"""Errors that a user can fix."""

from __future__ import annotations


class UserError(ValueError):
    """An error that a user can fix; the program prints its message, without a traceback."""
