"""Runs every step: synthesises speech, and makes TFRecords, three models, a SavedModel, and transcripts.

    python -m estimator_asr.demo [--output_dir=demo] [--size=full|small]

Each stage runs one of the other programs and prints its command line, which you can copy for your own corpus.
When the demo is run again, finished stages are skipped and an interrupted stage continues where it stopped.
"""

from __future__ import annotations

from tfrecord_builder.program import interrupts

interrupts.exit_at_once(__name__)

import csv
import dataclasses
import os
import pathlib
import shlex
import signal
import sys

from estimator_asr.demo import stages, tables
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, console, program

_NUM_TRANSCRIBED = 10

# Flags that each size of the demo adds to its commands. 94 speakers: two for each eSpeak NG voice.
SIZES: dict[str, dict[str, str]] = {
    "full": {
        **dict.fromkeys(("sentences", "acoustic", "language", "punctuation"), ""),
        "synthesise": "--num_speakers=94",
    },
    "small": {
        "sentences": """--num_train=60 --num_dev=4 --num_test=12 --num_text_sentences=200
        --min_occurrences=1""",
        "synthesise": "--num_speakers=4",
        "acoustic": "--train_epochs=0.3 --encoder_layers=1 --encoder_units=32",
        "language": "--train_epochs=2 --language_layers=1 --language_units=32",
        "punctuation": "--train_epochs=2",
    },
}


@dataclasses.dataclass(frozen=True)
class DemoConfig(config_flags.Checked):
    """Settings of the demo."""

    output_dir: str = config_flags.setting(
        "demo", "directory for everything that the demo writes", checkpoints=True
    )
    size: str = config_flags.setting(
        "full",
        "full takes up to 9 minutes on two cores; small takes 3 minutes and only checks that all stages run",
        choices=sorted(SIZES),
    )


# Each paragraph describes a stage: its name and title, then its command. Builds use --overwrite, so that a
# complete build can be repeated if its stamp is missing.
_STAGES = """
sentences: Sample sentences from a small grammar
estimator_asr.demo.sentences --output_dir={demo}/sentences {sentences}

synthesise: Synthesise the speech
tfrecord_builder.synthesise --tts=espeak --text_dir={demo}/sentences/spoken --output_dir={demo}/corpus
{synthesise}

build_speech: Build the TFRecords of the speech
tfrecord_builder.build --flagfile={flags}/build.flags --corpus_dir={demo}/corpus --output_dir={demo}/data
--overwrite

build_text: Build the TFRecords of the text
tfrecord_builder.build --corpus=text --num_shards=4 --corpus_dir={demo}/sentences/written
--output_dir={demo}/text --overwrite

build_marks: Build the TFRecords of the text with punctuation marks
tfrecord_builder.build --corpus=punctuated --num_shards=4 --num_workers=1
--corpus_dir={demo}/sentences/punctuated --output_dir={demo}/marks --overwrite

train_acoustic: Train the acoustic model: speech to pinyin
estimator_asr.train --flagfile={flags}/acoustic.flags --data_dir={demo}/data --model_dir={demo}/acoustic
{acoustic}

train_language: Train the language model: pinyin to hanzi
estimator_asr.train --flagfile={flags}/language.flags --data_dir={demo}/text --model_dir={demo}/language
{language}

train_punctuation: Train the punctuation model: hanzi to marks
estimator_asr.train --flagfile={flags}/punctuation.flags --data_dir={demo}/marks
--model_dir={demo}/punctuation {punctuation}

tune: Tune the decoding on dev
estimator_asr.tune --acoustic_model_dir={demo}/acoustic --language_model_dir={demo}/language
--data_dir={demo}/data

tune_pauses: Tune how much pauses count for the marks on dev
estimator_asr.tune --punctuation_model_dir={demo}/punctuation --acoustic_model_dir={demo}/acoustic
--language_model_dir={demo}/language --data_dir={demo}/data

evaluate_acoustic: Evaluate the acoustic model
estimator_asr.evaluate --model_dir={demo}/acoustic --data_dir={demo}/data --output_dir={demo}/report/acoustic

evaluate_language: Evaluate the language model
estimator_asr.evaluate --model_dir={demo}/language --data_dir={demo}/text --output_dir={demo}/report/language

export: Export the three models as one SavedModel
estimator_asr.export --acoustic_model_dir={demo}/acoustic --language_model_dir={demo}/language
--punctuation_model_dir={demo}/punctuation --data_dir={demo}/data
--report_dir={demo}/report/acoustic,{demo}/report/language --export_dir={demo}/export

evaluate_cascade: Evaluate the SavedModel: speech to hanzi with marks
estimator_asr.evaluate --saved_model={demo}/export --data_dir={demo}/data --output_dir={demo}/report/cascade
"""


def make_stages(directory: pathlib.Path, size: str) -> list[stages.Stage]:
    """Returns all stages except the last one: from sampling sentences to evaluating the SavedModel."""
    paths = {"demo": shlex.quote(str(directory)), "flags": shlex.quote(os.path.relpath(find_flags_dir()))}
    parsed = []
    for paragraph in _STAGES.strip().split("\n\n"):
        head, command = paragraph.split("\n", 1)
        module, *arguments = shlex.split(command.format(**paths, **SIZES[size]))
        parsed.append(stages.Stage(*head.split(": ", 1), module, tuple(arguments)))
    return parsed


def make_transcription(directory: pathlib.Path) -> tuple[stages.Stage, list[dict[str, str]]]:
    """Returns the last stage, and the manifest rows for the test recordings that it transcribes."""
    with open(directory / "corpus" / "manifest.tsv", encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        test_rows = [row for row in rows if row["split"] == "test"][:_NUM_TRANSCRIBED]
    audio = (str(directory / "corpus" / row["audio"]) for row in test_rows)
    arguments = (f"--saved_model={directory / 'export'}", "--format=json", *audio)
    title, output = f"Transcribe {len(test_rows)} test recordings", directory / "transcripts.jsonl"
    return stages.Stage("transcribe", title, "estimator_asr.transcribe", arguments, output), test_rows


def main(config: DemoConfig) -> None:
    """Runs the unfinished stages, then prints the results of all stages."""
    exit_on(signal.SIGTERM, signal.SIGHUP)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # inherited by the stages' programs
    find_flags_dir()  # reports missing flag files before anything is written
    directory = pathlib.Path(config.output_dir)
    with stages.claim(directory, config.size) as lock:
        planned, seconds = make_stages(directory, config.size), {}
        stages.check_order(planned, directory / "finished")
        count = len(planned) + 1
        for number, stage in enumerate(planned, 1):
            seconds[stage.title] = stages.finish(stage, f"[{number}/{count}]", directory / "finished", lock)
        last, transcribed = make_transcription(directory)
        seconds[last.title] = stages.finish(last, f"[{count}/{count}]", directory / "finished", lock)
    reports = {name: directory / "report" / name for name in ("acoustic", "language", "cascade")}
    for lines in (
        tables.transcripts(transcribed, last.output),
        tables.error_rates(reports),
        tables.mark_rates(reports["cascade"]),
        tables.durations(seconds),
        tables.next_commands(directory),
    ):
        print("\n".join(["", *lines]))


def exit_on(*numbers: signal.Signals) -> None:
    """Makes signals raise SystemExit with exit code 128 + signal number, which ends the running stage too."""
    for number in numbers:
        if signal.getsignal(number) is not signal.SIG_IGN:  # under nohup, SIGHUP stays ignored
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def find_flags_dir() -> pathlib.Path:
    """Returns the path of flags/demo in the checkout or, if there is none, in the installed package.

    Raises errors.UserError if neither directory exists.
    """
    checkout = pathlib.Path(__file__).parents[2] / "flags" / "demo"
    installed = pathlib.Path(console.find_flag_file("flags/demo/build.flags")).parent
    for path in (checkout, installed):
        if path.is_dir():
            return path
    raise errors.UserError(
        f"demo: the flag files are missing from {checkout}; install the package again or run from a checkout."
    )


if __name__ == "__main__":
    program.run(main, DemoConfig)
