"""Runs one of estimator_asr's programs by name, as in `estimator-asr train ...`."""

from __future__ import annotations

from tfrecord_builder.program import console

PROGRAMS = (
    *("demo", "encode", "train", "train_ngram", "tune", "evaluate", "average"),
    *("export", "transcribe", "pseudo_label", "align", "serve", "doctor", "replay", "show_weights"),
)


def main() -> None:
    console.run("estimator_asr", PROGRAMS)


if __name__ == "__main__":
    main()
