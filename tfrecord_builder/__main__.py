"""Runs a builder program by name, as in `tfrecord-builder build ...`."""

from __future__ import annotations

from tfrecord_builder.program import console

PROGRAMS = ("download", "synthesise", "build", "verify", "show")


def main() -> None:
    console.run("tfrecord_builder", PROGRAMS)


if __name__ == "__main__":
    main()
