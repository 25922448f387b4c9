"""What a build leaves out: counted, written down, and told; too much of it ends the build."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from absl import logging

from tfrecord_builder import dataset_info, errors, files
from tfrecord_builder.building import build_config, catalog, shard_statistics, staging

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # a path may hold them, a line of a table not


def take(found: Iterable[shard_statistics.ShardStatistics], spooled: catalog.Spool) -> None:
    """Takes what was left out while the shards were written."""
    for statistics in found:
        for row in statistics.rejected:
            spooled.reject(*row)


def check(config: build_config.BuildConfig, spooled: catalog.Spool) -> None:
    """Raises UserError, and leaves rejected.tsv for reading, if too much was rejected, or all of it."""
    reasons, num_listed = spooled.reasons(), spooled.count_listed()
    num_rejected = sum(count for _, count in reasons)
    is_too_much = num_rejected / num_listed > config.max_rejected
    if not is_too_much and num_rejected < num_listed:
        return
    path = staging.failure_path(config.output_dir, dataset_info.REJECTED_FILE)
    write(path, spooled)
    raise errors.UserError(
        f"--max_rejected: {num_rejected} of {num_listed} utterances are rejected, expected "
        f"{f'at most {config.max_rejected:.1%}' if is_too_much else 'some to be left'}: "
        f"{describe(reasons[:3])}; read {path}, mend the corpus{' or raise --max_rejected' * is_too_much}."
    )


def tell(spooled: catalog.Spool) -> None:
    """Logs how much was left out, and why."""
    reasons = spooled.reasons()
    if reasons:
        num_rejected = sum(count for _, count in reasons)
        logging.warning(
            "%d of %d utterances rejected: %s", num_rejected, spooled.count_listed(), describe(reasons)
        )


def write(path: str, spooled: catalog.Spool) -> None:
    """Writes rejected.tsv: utterance id, split, reason and the path of the recording (empty for text)."""
    with files.writing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write("\t".join(dataset_info.REJECTED_COLUMNS) + "\n")
        file.writelines(
            "\t".join(_CONTROLS.sub(" ", each) for each in row) + "\n" for row in spooled.rejected()
        )


def describe(counts: Sequence[tuple[str, int]]) -> str:
    """Gives "what (how often), ..."."""
    return ", ".join(f"{what} ({count})" for what, count in counts)
