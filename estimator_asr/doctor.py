"""Checks the machine, the data and the model, and reports problems.

    python -m estimator_asr.doctor
    python -m estimator_asr.doctor --data_dir=DATA
    python -m estimator_asr.doctor --data_dir=DATA --model_dir=AM

The machine: versions, CUDA and cuDNN, devices (and why a GPU is not used), cores, memory and disk.
The data: whether the directory is complete, and which utterances have the least CTC slack
(frames after subsampling / frames that CTC needs).
The model: whether it can be opened and fits the data, and whether its first batch matches the records.
Speed: times a matrix product, the input pipeline alone, and ten training steps with the model's settings.

Each line begins with ok, warning (works, but probably not as intended) or problem (does not work). The
check takes about a minute and writes nothing. The exit code is 1 if there is a problem.
"""

from __future__ import annotations

from tfrecord_builder.program import interrupts

interrupts.exit_at_once(__name__)

import dataclasses
import importlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Optional

from estimator_asr.monitoring.diagnostics.doctor import environment, findings
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, lazy_tensorflow, program


@dataclasses.dataclass(frozen=True)
class DoctorConfig(config_flags.Checked):
    """Flags of doctor: the data and the model to check in addition to the machine."""

    data_dir: tuple[str, ...] = config_flags.setting((), "comma-separated data directories")
    model_dir: Optional[str] = config_flags.setting(None, "model directory of any kind", checkpoints=True)


def examine(config: DoctorConfig) -> Iterator[tuple[str, Iterable[findings.Finding]]]:
    """Yields the title and findings of each section; each check runs when its findings are iterated over."""
    yield "versions", environment.check_versions()
    try:
        devices, data, model, timings = load_checks("devices", "data", "model", "timings")
    except (ImportError, errors.UserError) as error:
        text = f"TensorFlow cannot be imported ({error.__cause__ or error}); install the packages named above"
        yield "tensorflow", [findings.problem(text)]
        return
    data_dirs, model_dir = config.data_dir, config.model_dir
    yield "devices", devices.judge(devices.gather())
    yield "machine", environment.check_machine(model_dir or os.getcwd())
    for path in data_dirs:
        yield f"data {path}", findings.catch(lambda path=path: data.check(path, model_dir))
    if model_dir is not None:
        yield f"model {model_dir}", findings.catch(lambda: model.check(model_dir))
    if model_dir is not None and data_dirs:
        yield "data and model", findings.catch(lambda: model.check_data(model_dir, data_dirs))
    yield "timings", findings.catch(lambda: timings.check(data_dirs, model_dir))


def load_checks(*names):
    """Imports the check modules that need TensorFlow; raises ImportError or UserError if that fails."""
    tensorflow = lazy_tensorflow.load()
    tensorflow.get_logger().setLevel("ERROR")
    tensorflow.compat.v1.disable_eager_execution()
    return [importlib.import_module(f"estimator_asr.monitoring.diagnostics.doctor.{name}") for name in names]


def show(sections: Iterable[tuple[str, Iterable[findings.Finding]]]) -> list[findings.Finding]:
    """Prints each finding as soon as its check yields it; returns all printed findings."""
    shown = []
    for title, lines in sections:
        print(f"\n{title}", flush=True)
        for finding in lines:
            if finding.level == findings.PROBLEM and finding in shown:  # report a problem only once
                continue
            print(f"  {finding.level:8} {finding.text}", flush=True)
            shown.append(finding)
    return shown


def summarise(shown: Sequence[findings.Finding]) -> str:
    """Returns a line with the numbers of warnings and problems, and the first problem."""
    problems = [finding.text for finding in shown if finding.level == findings.PROBLEM]
    num_warnings = sum(finding.level == findings.WARNING for finding in shown)
    counts = {"warning": num_warnings, "problem": len(problems)}
    text = ", ".join(f"{count} {level}{'' if count == 1 else 's'}" for level, count in counts.items())
    return f"{text}; fix first: {problems[0].splitlines()[0]}" if problems else text


def main(config: DoctorConfig) -> int:
    shown = show(examine(config))
    print(f"\n{summarise(shown)}")
    return int(any(finding.level == findings.PROBLEM for finding in shown))


if __name__ == "__main__":
    program.run(main, DoctorConfig)
