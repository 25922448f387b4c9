"""Ids of augmented copies: the utterance id, followed by the names of the changes after separators."""

from __future__ import annotations

import re

SEPARATOR = "~"  # comes before the name of each change
WORDLESS = f"{SEPARATOR}wordless-"  # occurs in the ids of copies without words, which have no labels
COPY = re.compile(f"{SEPARATOR}(?:speed[0-9]|copy[0-9]|sound-|wordless-)")  # matches in every copy's id
