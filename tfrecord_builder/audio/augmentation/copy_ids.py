"""Ids of augmented copies: the id of the utterance, and after a separator what the copy changes."""

from __future__ import annotations

import re

SEPARATOR = "~"  # separates the utterance id and the names of the changes in the id of an augmented copy
WORDLESS = f"{SEPARATOR}wordless-"  # marks the ids of copies without words, which have no labels
COPY = re.compile(f"{SEPARATOR}(?:speed[0-9]|copy[0-9]|sound-|wordless-)")  # is in every copy's id
