"""Copies the weights of a source into a new model, and reports what was copied.

A variable that has the same shape in both models is copied whole. If a variable has one row or column per
token, the rows or columns for the tokens in both vocabularies are copied.
"""

from __future__ import annotations

import collections
from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from estimator_asr.experiment import checkpoints, model_directory
from tfrecord_builder import errors
from tfrecord_builder.data import syllables

BLANK = None  # name of the blank class, which is not a token
# Maps a table of token vectors to the table of part vectors (initial, final, tone) that are added to them.
_PARTS = {"acoustic/ctc/class_vectors": "acoustic/ctc/part_vectors"}
_MAX_SHOWN = 3  # maximum number of variables listed in the error message


class Names(NamedTuple):
    """Names of the rows along one axis of a variable: tokens, BLANK, or (token, character) pairs."""

    axis: int
    names: tuple[Hashable, ...]


class WeightSource(NamedTuple):
    """Pretrained weights that initialise a new model."""

    path: str  # checkpoint or directory
    values: dict[str, np.ndarray]  # weights, keyed by variable name in the new model
    names: dict[str, Names]  # row names, keyed by variable, for the variables that have one row per token
    remarks: tuple[str, ...]  # log messages about omissions and differences


class Count(NamedTuple):
    """Numbers of rows that were copied, that only the new model has, and that only the source has."""

    copied: int
    new: int
    dropped: int


class TransferReport(NamedTuple):
    """Result of a transfer: how each variable was copied, or why it was not. All keys are variable names."""

    whole: dict[str, int]  # number of values in each variable that was copied whole
    rows: dict[str, Count]  # row counts for each variable whose rows were matched by token
    misfits: dict[str, tuple[list[int], list[int]]]  # shapes that differ (new model, source)
    new: list[str]  # variables that the source lacks
    unused: list[str]  # variables that only the source has


def list_names(model: model_directory.ModelDirectory) -> dict[str, Names]:
    """Returns row names, keyed by variable, for the variables that have one row per token or character."""
    if model.characters is None:
        return class_names(model.tokens.tokens)
    tokens, characters = model.tokens.tokens, model.characters.tokens
    mask = model.readings.mask(model.tokens, model.characters)
    pairs = tuple((tokens[token], characters[character]) for token, character in np.argwhere(mask))
    return {
        "language/tokens": Names(0, tokens),
        "language/characters": Names(0, characters),
        "language/reading_bias": Names(0, pairs),
    }


def class_names(tokens: tuple[str, ...]) -> dict[str, Names]:
    """Returns the row names (tokens, then BLANK) of an acoustic model's output layers, keyed by variable."""
    classes = (*tokens, BLANK)
    local = {"kernel": Names(1, classes), "bias": Names(0, classes)}
    heads = {
        f"acoustic/{head}/{name}": Names(axis, classes)
        for head in ("ctc", "decoder")
        for name, axis in (("class_vectors", 0), ("bias", 1))
    }
    return {**heads, **{f"acoustic/local_ctc/classes/{name}": names for name, names in local.items()}}


def copy_rows(
    initial: np.ndarray, new: Names, source: np.ndarray, old: Names
) -> tuple[np.ndarray, np.ndarray, Count]:
    """Copies the rows whose names are in both models; if the source has a name twice, copies the first row.

    `initial` and `new` are the values and row names in the new model; `source` and `old`, in the source. The
    shapes may differ only along the axis of the names. Returns `initial` with the copied rows, the indices of
    these rows (int64 [copied]), and the row counts.
    """
    rows = {name: row for row, name in reversed(list(enumerate(old.names)))}
    pairs = [(row, rows[name]) for row, name in enumerate(new.names) if name in rows]
    targets, origins = np.array(pairs, np.int64).reshape(-1, 2).T
    result = np.moveaxis(initial.copy(), new.axis, 0)
    result[targets] = np.moveaxis(source, new.axis, 0)[origins]
    count = Count(len(pairs), len(new.names) - len(pairs), len(old.names) - len(set(origins.tolist())))
    return np.moveaxis(result, 0, new.axis), targets, count


def list_weights(names: Iterable[str], scope: str) -> list[str]:
    """Returns the sorted names of the weights in `scope`; `names` are all names in a checkpoint or graph.

    Weights are the model's variables except batch norm's update counts. Because the counts start at zero,
    batch norm's averages adapt to new data as fast as in a new model.
    """
    variables = checkpoints.find_model_variables(names)
    return [n for n in variables if n.startswith(f"{scope}/") and not n.endswith("/num_updates")]


def combine(
    model: model_directory.ModelDirectory, initial: dict[str, np.ndarray], source: WeightSource
) -> tuple[dict[str, np.ndarray], TransferReport]:
    """Returns new values for the variables that get weights from the source, and a report on all variables.

    `initial` maps the names of the new model's variables to their initial values.
    """
    unused = set(list_weights(source.values, model.config.model)) - set(initial)
    report = TransferReport({}, {}, {}, sorted(set(initial) - set(source.values)), sorted(unused))
    values, named = {}, list_names(model)
    for name in sorted(set(initial) & set(source.values)):
        wanted, got = list(initial[name].shape), list(source.values[name].shape)
        if name in named and len(wanted) == len(got):
            axis = named[name].axis
            got[axis] = wanted[axis]
        if wanted != got:
            report.misfits[name] = (wanted, list(source.values[name].shape))
        elif name in named:
            values[name], report.rows[name] = _copy_tokens(model, name, initial, source, named[name])
        else:
            values[name], report.whole[name] = source.values[name], initial[name].size
    return values, report


def _copy_tokens(model, name, initial, source, names):
    values, copied, count = copy_rows(initial[name], names, source.values[name], source.names[name])
    parts = _PARTS.get(name)
    if parts in initial and parts not in source.values:  # the two tables' sum must be the source's table
        sums = syllables.part_matrix(model.tokens.tokens) @ initial[parts]
        tokens = copied[copied < len(sums)]  # the blank has no syllable parts
        values[tokens] -= sums[tokens]
    return values, count


def check(report: TransferReport, source: str, model_dir: str) -> None:
    """Raises errors.UserError if none, or fewer than half, of the variables common to both models fit."""
    num_fitting = len(report.whole) + len(report.rows)
    if num_fitting < len(report.misfits) or not num_fitting:
        shapes = "; ".join(_describe_misfits(report)[:_MAX_SHOWN]) or "the models have no variable in common"
        raise errors.UserError(
            f"{source}: only {num_fitting} of {num_fitting + len(report.misfits)} variables fit the "
            f"model in {model_dir} ({shapes}); use the sizes that the source was trained with, or leave out "
            "--warm_start_from"
        )


def describe(report: TransferReport, source: WeightSource) -> Iterator[str]:
    """Yields log lines that report what happened to the variables."""
    yield f"warm start from {source.path}"
    yield f"  copied whole: {len(report.whole)} variables, {sum(report.whole.values()):,} values"
    width = max(map(len, report.rows), default=0)
    if report.rows:
        yield f"  {'by token':{width}} {'copied':>9} {'new':>9} {'dropped':>9}"
    for name, count in report.rows.items():
        yield f"  {name:{width}} {count.copied:9,} {count.new:9,} {count.dropped:9,}"
    for misfit in _describe_misfits(report):
        yield f"  does not fit, so initialised: {misfit}"
    if report.new:
        yield f"  initialised: {_group_by_layer(report.new)}"
    if report.unused:
        yield f"  only in the source, not copied: {_group_by_layer(report.unused)}"
    yield from (f"  {remark}" for remark in source.remarks)


def _describe_misfits(report):
    return [f"{name} {wanted}, but {got} in the source" for name, (wanted, got) in report.misfits.items()]


def _group_by_layer(names):
    """Returns text that lists the layers of the variables, with the number of variables in each layer."""
    counts = collections.Counter("/".join(name.split("/")[:3]) for name in names)
    return ", ".join(layer if count == 1 else f"{layer} ({count})" for layer, count in counts.items())
