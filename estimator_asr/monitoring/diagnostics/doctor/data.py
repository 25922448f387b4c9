"""Checks a data directory: completeness, unknown tokens, and utterances with too few frames for CTC."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import experiment
from estimator_asr.inputs import shard_cache, splits
from estimator_asr.monitoring.diagnostics.doctor import findings
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.data import dataset_info, manifest, schema, vocabulary

_NUM_TOO_LONG = 20  # number of utterances to list if some have too many labels for CTC
_NUM_TIGHTEST = 3  # number of utterances to list if none has too many labels
_SECONDS = 10.0  # time limit for reading the train split; tfrecord_builder.verify reads all of it
_UNKNOWN_FRACTION = 0.02
_FEATURES = ("utterance_id", "num_frames", "num_tokens", "token_ids")


class Slack(NamedTuple):
    """An utterance's CTC slack: the number of frames after subsampling, divided by the number that CTC needs.

    CTC needs one frame per label, plus one blank frame for each pair of equal neighbours.
    """

    ratio: float
    utterance_id: str
    num_frames: int
    num_needed: int


def check(data_dir: str, model_dir: Optional[str] = None) -> Iterator[findings.Finding]:
    """Yields findings about a data directory.

    The model's subsampling (4 without a model) determines how many frames CTC has for an utterance. Raises
    errors.UserError if a file is missing or damaged, so that the check cannot continue.
    """
    info = dataset_info.DatasetInfo.load(data_dir)
    tokens = vocabulary.Vocabulary.load(os.path.join(data_dir, dataset_info.TOKENS_FILE))
    yield findings.ok(f"{tokens.size:,} tokens of token type {info.token_type}")
    is_extensible = "train" in info.splits and info.splits["train"].unknown_tokens > 0
    for name in dict.fromkeys([*manifest.SPLITS, *sorted(info.splits)]):
        if name in info.splits:
            info.shard_paths(data_dir, name)  # raises UserError if a shard does not have the recorded size
            yield from judge_split(name, info.splits[name], is_extensible)
            if name != "train" and not info.has_marks:
                yield from map(findings.warning, splits.describe_seen_speakers([info], name))
    if "train" not in info.splits:
        yield findings.problem(f"{data_dir} has no train split; build the data again with a train split")
    elif "dev" not in info.splits:
        text = f"{data_dir} has no dev split, so the model will not be evaluated during training"
        yield findings.warning(text)
    if "train" in info.splits and info.frontend is not None:
        with splits.explain_damage([data_dir], "train"):
            yield from judge_slack(data_dir, _read_slack(info, data_dir, *_find_settings(model_dir)))


def _find_settings(model_dir):
    """Returns the model's subsampling and --shard_cache_gb, or the defaults if there is no readable model."""
    if model_dir:
        with contextlib.suppress(errors.UserError):  # doctor's checks of the model report the error
            config = experiment.ExperimentConfig.load(model_dir)
            return config.subsampling, config.input.shard_cache_gb
    return experiment.DEFAULT_SUBSAMPLING, config_lib.InputConfig.shard_cache_gb


def judge_split(
    name: str, split: dataset_info.SplitInfo, is_extensible: bool = True
) -> Iterator[findings.Finding]:
    """Yields findings about a split's size, its unknown tokens, and its sentences that are also in train.

    is_extensible is True if train contains tokens that could be added to the vocabulary.
    """
    hours = f", {split.hours:.2f} hours" if split.seconds else ""
    labels = f"{split.num_tokens:,} tokens"
    if split.num_marks:
        labels = f"{split.num_characters:,} characters, {split.num_marks:,} marks"
    yield findings.ok(
        f"{name}: {split.num_utterances:,} utterances{hours}, {labels}, {len(split.shards)} shards, each of "
        "the expected size"
    )
    if split.unknown_tokens > _UNKNOWN_FRACTION * split.num_tokens:
        advice = "and learned as <unk>; build with --extend_vocabulary or without --vocabulary_dir"
        if not is_extensible:
            advice = (
                "because train lacks them; add recordings or text that contain them to train, or build with "
                "the vocabulary of a larger text (build --corpus=text, then --vocabulary_dir)"
            )
        unknown = f"{100 * split.unknown_tokens / split.num_tokens:.1f} % of the tokens are unknown"
        yield findings.warning(f"{name}: {unknown}, {advice}")
    shared = split.shared_sentences.get("train", 0)
    if name != "train" and split.num_sentences and shared > split.num_sentences / 2:
        yield findings.warning(
            f"{name}: {shared:,} of {split.num_sentences:,} sentences are also in train, so error rates on "
            f"{name} say little about new sentences; see report.html"
        )


def judge_slack(data_dir: str, slacks: list[Slack]) -> Iterator[findings.Finding]:
    """Yields a finding with the utterances that have the least CTC slack: a problem if any is below 1."""
    if not slacks:
        return
    too_long = sum(slack.ratio < 1 for slack in slacks)
    tightest = sorted(slacks)[: _NUM_TOO_LONG if too_long else _NUM_TIGHTEST]
    lines = "".join(
        f"\n             {slack.num_frames:5} frames, {slack.num_needed:4} needed  {slack.utterance_id}"
        for slack in tightest
    )
    least = f"least CTC slack (after subsampling) among the {len(slacks):,} utterances read:{lines}"
    if too_long:
        yield findings.problem(
            f"{data_dir}: {too_long:,} utterances have more labels than frames after subsampling, so CTC "
            f"leaves them out of the loss; check their transcripts; {least}"
        )
    else:
        yield findings.ok(least)


def _read_slack(info, data_dir, subsampling, shard_cache_gb):
    """Reads the train split for up to _SECONDS; returns the CTC slack of each utterance that was read."""
    cache = shard_cache.ShardCache(shard_cache_gb)
    shards = splits.list_shards(info, data_dir, "train")
    records = itertools.chain.from_iterable(map(cache.read_records, shards))
    slacks, end = [], time.monotonic() + _SECONDS
    for values in schema.parse_records(records, info.frontend.num_bins, info.fbank_dtype):
        slacks.append(measure_slack(*(values[name] for name in _FEATURES), subsampling))
        if time.monotonic() > end:
            break
    return slacks


def measure_slack(
    utterance_id: bytes, num_frames: int, num_tokens: int, token_ids: np.ndarray, subsampling: int
) -> Slack:
    """Returns the CTC slack of a record; token_ids is int32 [num_tokens]."""
    needed = vocabulary.min_ctc_frames(token_ids[:num_tokens].tolist())
    subsampled = frontend.num_subsampled_frames(int(num_frames), subsampling)
    return Slack(subsampled / max(needed, 1), utterance_id.decode("utf-8"), subsampled, needed)
