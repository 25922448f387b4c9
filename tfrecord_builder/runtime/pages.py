"""HTML pages from Jinja templates: values are escaped, and a name without a value is an error."""

from __future__ import annotations

import os

import jinja2


def environment(directory: str | os.PathLike, **filters) -> jinja2.Environment:
    """Returns the environment of the templates in a directory, which can include each other."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(directory),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(filters)
    return made
