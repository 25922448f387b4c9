"""Looks at the machine, the data and the model, and says what is not as it should be.

    python -m estimator_asr.doctor
    python -m estimator_asr.doctor --data_dir=DATA
    python -m estimator_asr.doctor --data_dir=DATA --model_dir=AM

lists versions, CUDA and cuDNN, devices (and why a GPU that is there is not used), cores, memory and disk;
checks that the data directory is whole and names the utterances that leave CTC least room; opens the model
directory and holds both against each other; times a matrix product, the input alone and ten training steps of
a model like yours. Each line begins with ok, warning (works, but probably not as hoped) or problem (does not
work). Nothing is written. Takes about a minute; exit code 1 if there is a problem.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Optional

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # before TensorFlow loads; errors still come as exceptions

from estimator_asr.diagnostics.doctor import findings, versions
from tfrecord_builder import config_flags, dataset_info, errors


@dataclasses.dataclass(frozen=True)
class DoctorConfig:
    """What to look at beside the machine."""

    data_dir: tuple[str, ...] = config_flags.setting((), "data directories, comma separated")
    model_dir: Optional[str] = config_flags.setting(None, "model directory, acoustic or language")

    def __post_init__(self):
        config_flags.validate(self)


def examine(config: DoctorConfig) -> Iterator[tuple[str, Iterator[findings.Finding]]]:
    """Yields title and findings of each section; they are looked for when they are asked for."""
    yield "versions", versions.check()
    try:
        parts = _load("devices", "machine", "data", "model", "timings")
    except ImportError as error:
        yield (
            "tensorflow",
            iter([findings.problem(f"cannot be imported ({error}); install what is named above")]),
        )
        return
    devices, machine, data, model, timings = parts
    yield "devices", devices.judge(devices.gather())
    yield "machine", machine.check(config.model_dir or os.getcwd())
    for path in config.data_dir:
        yield f"data {path}", findings.catch(lambda path=path: data.check(path))
    if config.model_dir is not None:
        yield f"model {config.model_dir}", findings.catch(lambda: model.check(config.model_dir))
    if config.model_dir is not None and config.data_dir:
        yield "data and model", findings.catch(lambda: model.check_both(config.model_dir, config.data_dir))
    yield "timings", findings.catch(lambda: _time(timings.check, config))


def _load(*names: str) -> list:
    """Imports what needs TensorFlow: one that cannot be imported is a finding, not the end."""
    tensorflow = importlib.import_module("tensorflow")
    tensorflow.get_logger().setLevel("ERROR")
    tensorflow.compat.v1.disable_eager_execution()
    return [importlib.import_module(f"estimator_asr.diagnostics.doctor.{name}") for name in names]


def _time(check: Callable, config: DoctorConfig) -> Iterable[findings.Finding]:
    infos = dataset_info.load_all(config.data_dir)
    return check(infos, config.data_dir, config.model_dir)


def show(sections: Iterable[tuple[str, Iterable[findings.Finding]]]) -> list[findings.Finding]:
    """Prints the sections line by line as they come; returns all findings."""
    found = []
    for title, lines in sections:
        print(f"\n{title}", flush=True)
        for finding in lines:
            is_problem = finding.level == findings.PROBLEM
            if is_problem and finding in found:  # the same directory stands in the way of several checks
                continue
            print(f"  {finding.level:8} {finding.text}", flush=True)
            found.append(finding)
    return found


def summarise(found: Sequence[findings.Finding]) -> str:
    """Returns how many warnings and problems there are, and the first problem."""
    counts = {level: sum(f.level == level for f in found) for level in (findings.WARNING, findings.PROBLEM)}
    problems = [finding.text for finding in found if finding.level == findings.PROBLEM]
    text = ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items())
    return f"{text}; begin with: {problems[0].splitlines()[0]}" if problems else text


def define_flags() -> None:
    config_flags.define(DoctorConfig)


def main(argv: list[str]) -> int:
    del argv  # no words are accepted
    found = show(examine(config_flags.from_flags(DoctorConfig)))
    print(f"\n{summarise(found)}")
    return int(any(finding.level == findings.PROBLEM for finding in found))


if __name__ == "__main__":
    errors.run_program(main, define_flags)
