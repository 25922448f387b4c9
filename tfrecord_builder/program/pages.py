"""Jinja environments for HTML pages, in which values are escaped and undefined names are errors."""

from __future__ import annotations

import os

import jinja2


def environment(directory: str | os.PathLike, **filters) -> jinja2.Environment:
    """Returns a Jinja environment for the templates in a directory, with additional filters."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(directory),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(filters)
    return templates
