"""Errors that a user can fix."""

from __future__ import annotations


class UserError(ValueError):
    """An error that a user can fix; the program prints it as one sentence.

    Its form is `<where>: <what> is <got>, expected <want>; <what to do>`.
    """
