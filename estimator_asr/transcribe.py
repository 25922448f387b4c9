"""Transcribes audio files with an exported model.

    python -m estimator_asr.transcribe --saved_model=EXPORT [--format=tsv|json] [--hotwords=WORD,...] FILE...

Prints file<TAB>transcript<TAB>pinyin, one line per file, or a JSON object that also has the time and
confidence of each character, and the other transcripts that were considered (n_best). Reads WAV, FLAC, Ogg
and MP3 of any sample rate, up to three minutes. A file that cannot be read is named on standard error, the
others continue, and the exit code is 1. Silence has an empty transcript, and a warning on standard error.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Optional

from tfrecord_builder import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import numpy as np
import tensorflow as tf
import tqdm

from estimator_asr import hotword_list
from estimator_asr.serving import export_info, recogniser, statuses
from tfrecord_builder import audio, config_flags, errors, program


@dataclasses.dataclass(frozen=True)
class TranscribeConfig(config_flags.Checked):
    """Flags of transcribe."""

    saved_model: str = config_flags.setting("", "export directory, or one version in it", required=True)
    format: str = config_flags.setting("tsv", "output for each file", choices=("tsv", "json"))
    hotwords: tuple[str, ...] = config_flags.setting((), hotword_list.FLAG_HELP)
    hotwords_file: Optional[str] = config_flags.setting(None, hotword_list.FILE_FLAG_HELP)


def transcribe_file(model: recogniser.Recogniser, path: str, sample_rate: int) -> dict:
    """Returns file and the outputs of the model for one recording, as docs/decode.md describes them.

    Raises:
        errors.UserError: the file cannot be read, is longer than statuses.MAX_SECONDS, or has NaN or Inf
            samples or a peak above statuses.LOUDEST_PEAK.
    """
    waveform = audio.read_audio(path, sample_rate, statuses.MAX_SECONDS)
    if not np.isfinite(waveform).all():
        raise errors.UserError(f"{path}: has NaN or Inf samples; save it again")
    peak = np.max(np.abs(waveform))
    if peak > statuses.LOUDEST_PEAK:
        raise errors.UserError(f"{path}: peak is {peak:.0e}, expected 1 at full scale; save it again")
    if peak < audio.SILENT_PEAK:
        print(
            f"warning: {path}: audio is silent, expected a peak of at least {audio.SILENT_PEAK:g} of full "
            "scale; its transcript is empty",
            file=sys.stderr,
            flush=True,
        )
    batch = {"waveform": waveform[np.newaxis], "num_samples": np.array([waveform.size], np.int32)}
    return {"file": path, **{name: value for name, (value,) in model.run(batch).items()}}


def format_line(result: dict, format: str) -> str:
    if format == "json":
        return json.dumps(result, ensure_ascii=False)
    return "\t".join(result[name] for name in ("file", "transcript", "pinyin"))


def main(config: TranscribeConfig, files: list[str]) -> int:
    if not files:
        raise errors.UserError("transcribe: no FILE is given; give audio files after the flags")
    tf.get_logger().setLevel("ERROR")
    # The bytes of a file name that is not UTF-8 are printed as in error messages and escaped as in JSON.
    sys.stdout.reconfigure(errors="backslashreplace")
    version_dir = recogniser.find_version(config.saved_model)
    sample_rate = export_info.load(version_dir).frontend.sample_rate
    model = recogniser.load(version_dir, "waveform", hotword_list.read_for(version_dir, config))
    num_bad = 0
    for path in tqdm.tqdm(files, desc="transcribe", unit=" files", disable=sys.stdout.isatty() or None):
        try:
            print(format_line(transcribe_file(model, path, sample_rate), config.format), flush=True)
        except errors.UserError as error:
            num_bad += 1
            print(f"error: {error}", file=sys.stderr, flush=True)
    return 1 if num_bad else 0


if __name__ == "__main__":
    program.run(main, TranscribeConfig, takes_words=True)
