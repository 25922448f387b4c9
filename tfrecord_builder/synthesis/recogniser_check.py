"""Checks recordings with an exported SavedModel, by comparing the recognised pinyin with the labels."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence

from rapidfuzz.distance import Levenshtein

from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, config_json, progress_bar
from tfrecord_builder.program import lazy_tensorflow as tf
from tfrecord_builder.storage import files
from tfrecord_builder.synthesis import prompts

_EXPORT_INFO = os.path.join("assets.extra", "export.json")


@dataclasses.dataclass(frozen=True)
class CheckConfig(config_flags.Checked):
    """The recogniser that checks recordings; without a recogniser, no recording is rejected."""

    check: str = config_flags.setting(
        "", "exported acoustic model of toned syllables, used to check the recordings", checkpoints=True
    )
    max_error_rate: float = config_flags.setting(
        0.2, "toned syllable error rate above which --check rejects a recording", minimum=0
    )


def load(export_dir: str) -> Callable:
    """Returns a function that maps WAV files to statuses and pinyin, both bytes [batch] (docs/export.md).

    Raises errors.UserError if no SavedModel exists, loading fails, or the model does not output toned
    syllables.
    """
    tf.get_logger().setLevel("ERROR")
    names = filter(str.isdecimal, os.listdir(export_dir) if os.path.isdir(export_dir) else ())
    versions = [export_dir, *(os.path.join(export_dir, name) for name in sorted(names, key=int))]
    versions = [path for path in versions if os.path.isfile(os.path.join(path, "saved_model.pb"))]
    if not versions:
        raise errors.UserError(
            f"--check: {export_dir} contains no SavedModel; pass a directory written by "
            "python -m estimator_asr.export, or the directory of one version in it."
        )
    directory = versions[-1]  # the newest version
    session = tf.compat.v1.Session(graph=tf.Graph())
    try:
        token_type = config_json.parse(files.read_text(os.path.join(directory, _EXPORT_INFO)))["token_type"]
        if token_type != "syllable":
            raise ValueError(f"token type is {token_type}")
        with session.graph.as_default():
            graph = tf.compat.v1.saved_model.load(session, ["serve"], directory)
        signature = dict(graph.signature_def)["serving_default"]  # a protobuf map would add missing keys
        outputs = [dict(signature.outputs)[name].name for name in ("status", "pinyin")]
        return session.make_callable(outputs, [dict(signature.inputs)["wav_bytes"].name])
    except (OSError, ValueError, LookupError, TypeError, RuntimeError, tf.errors.OpError) as error:
        raise errors.UserError(
            f"--check: {directory} cannot be used ({type(error).__name__}: {error}). Pass an export of an "
            "acoustic model with toned syllables, or export the model again."
        ) from error


def find_misread(
    recognise: Callable, planned: Sequence[prompts.Prompt], output_dir: str, max_error_rate: float
) -> list[tuple[str, str, str, str]]:
    """Returns a row for rejected.tsv for each recording that `recognise` fails on or recognises badly."""
    rows = []
    for prompt in progress_bar.ProgressBar(planned, desc="checking", unit="utt"):
        path = prompt.recording(output_dir)
        with open(path, "rb") as file:
            (status,), (pinyin,) = recognise([file.read()])
        rate = Levenshtein.distance(prompt.pinyin, pinyin.decode().split()) / len(prompt.pinyin)
        if status != b"ok" or rate > max_error_rate:
            reason = f"error rate is {rate:.2f}: status {status.decode()}, recognised {pinyin.decode()}"
            rows.append((prompt.utterance_id, prompt.split, reason, path))
    return rows
