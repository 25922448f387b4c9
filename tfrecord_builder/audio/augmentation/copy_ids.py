"""Ids of augmented copies: the utterance id and the names of the changes, joined by separators."""

from __future__ import annotations

import re

SEPARATOR = "~"  # comes before the name of each change in a copy's id
WORDLESS = f"{SEPARATOR}wordless-"  # occurs in the ids of copies without words, which have no labels
COPY = re.compile(f"{SEPARATOR}(?:speed[0-9]|copy[0-9]|sound-|wordless-)")  # matches part of every copy's id
