"""Puts the weights of a source into those of a new model, and says what came from where."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from estimator_asr import model_directory
from estimator_asr.checkpointing.pretrained import token_rows, weight_sources
from tfrecord_builder import errors, syllables

# A table of tokens, and the table of their parts that is added to it.
_PARTS = {"acoustic/ctc/class_vectors": "acoustic/ctc/part_vectors"}
_SHOWN = 3  # shapes in an error


class Misfit(NamedTuple):
    """A variable that both models have in different shapes."""

    name: str
    wanted: tuple[int, ...]
    got: tuple[int, ...]

    def __str__(self):
        return f"{self.name} {list(self.wanted)}, in the source {list(self.got)}"


class Report(NamedTuple):
    """What became of each variable of the new model; and the source's that the new model has not.

    Attributes:
        whole: variable -> number of values.
        rows: variable -> how many places of its tokens.
        misfits: in shapes that cannot fit; they start anew.
        new, unused: variables that the source, or the new model, has not.
    """

    whole: dict[str, int]
    rows: dict[str, token_rows.Count]
    misfits: list[Misfit]
    new: list[str]
    unused: list[str]


def list_weights(names: Iterable[str], kind: str) -> list[str]:
    """Returns those of the model itself: not steps, nor what batch norm counts, nor slots of the optimiser.

    Args:
        names: of all variables of a checkpoint or a graph. A slot is named below its variable.
        kind: the scope of the model's variables.
    """
    names = set(names)
    return sorted(
        name
        for name in names
        if name.startswith(f"{kind}/")
        and not name.endswith("/num_updates")
        and name.rpartition("/")[0] not in names
    )


def combine(
    model: model_directory.ModelDirectory,
    initial: dict[str, np.ndarray],
    source: weight_sources.WeightSource,
) -> tuple[dict[str, np.ndarray], Report]:
    """Returns the values of the variables that get some of the source, and what became of all.

    Variables of one shape are copied whole, those that belong to tokens token by token.

    Args:
        model: the new one.
        initial: its weights, by name.
        source: the weights to start with.
    """
    others = set(list_weights(source.values, model.config.model)) - set(initial)
    report = Report({}, {}, [], [], sorted(others))
    values, named = {}, token_rows.list_names(model)
    for name in sorted(initial):
        if name not in source.values:
            report.new.append(name)
        elif not _fits(name, initial, source, named):
            report.misfits.append(Misfit(name, initial[name].shape, source.values[name].shape))
        elif name in named:
            values[name], report.rows[name] = _copy_rows(model, name, initial, source, named[name])
        else:
            values[name], report.whole[name] = source.values[name], initial[name].size
    return values, report


def _fits(name, initial, source, named):
    wanted, got = list(initial[name].shape), list(source.values[name].shape)
    if name in named and len(wanted) == len(got):
        got[named[name].axis] = wanted[named[name].axis]
    return wanted == got


def _copy_rows(model, name, initial, source, names):
    matched = token_rows.match(names.names, source.names[name].names)
    rows = token_rows.place(initial[name], source.values[name], matched, names.axis)
    parts = _PARTS.get(name)
    if parts in initial and parts not in source.values:  # the sum shall be what the source has
        sums = syllables.part_matrix(model.tokens.tokens) @ initial[parts]
        known = matched.new[matched.new < len(sums)]  # the blank has no parts
        rows[known] -= sums[known]
    return rows, matched.count


def check(report: Report, source: str, model_dir: str) -> None:
    """Raises errors.UserError if less than half of the variables that both models have fit."""
    num_fitting = len(report.whole) + len(report.rows)
    if num_fitting < len(report.misfits) or not num_fitting:
        shapes = "; ".join(map(str, report.misfits[:_SHOWN])) or "no variable is in both"
        raise errors.UserError(
            f"{source}: {num_fitting} of {num_fitting + len(report.misfits)} variables fit into the model "
            f"of {model_dir}, expected most of them ({shapes}); give the sizes that the source was trained "
            "with, or leave out --warm_start_from"
        )


def describe(report: Report, source: weight_sources.WeightSource) -> Iterator[str]:
    """Yields the lines that tell people what became of each variable."""
    yield f"warm start from {source.path}"
    yield f"  copied whole: {len(report.whole)} variables, {sum(report.whole.values()):,} values"
    width = max(map(len, report.rows), default=0)
    if report.rows:
        yield f"  {'by token':{width}} {'copied':>9} {'new':>9} {'dropped':>9}"
    for name, count in report.rows.items():
        yield f"  {name:{width}} {count.copied:9,} {count.new:9,} {count.dropped:9,}"
    for misfit in report.misfits:
        yield f"  does not fit, starts anew: {misfit}"
    if report.new:
        yield f"  starts anew: {_by_scope(report.new)}"
    if report.unused:
        yield f"  only in the source, left out: {_by_scope(report.unused)}"
    yield from (f"  {remark}" for remark in source.remarks)


def _by_scope(names):
    """Layers with the number of their variables, instead of hundreds of names."""
    counts = collections.Counter("/".join(name.split("/")[:3]) for name in names)
    return ", ".join(scope if count == 1 else f"{scope} ({count})" for scope, count in counts.items())
