"""Checks training on this machine's GPUs against its CPU; run it first, and paste its table into issues.

    make gpu-check
    python -m benchmarks.gpu_check [--logical_gpus=2] [--limit_seconds=600] [--work_dir=gpu-check]

Makes small corpora of tones and noise, then trains with the real program: both models for 50 steps on the
CPU, on a GPU, with XLA, with each precision, on two GPUs and on two CPU replicas, and 200 steps of the size
of flags/aishell1 on a GPU. --logical_gpus=2 splits a GPU, so that replicas train where there is only one. If
there are four cores or more, the small trainings run at the same time, so their times are not meaningful; the
trainings of flags/aishell1 run alone. Each line is printed when its result is known: it passes, fails with
the reason, or names a requirement that this machine lacks. The exit code is 1 if a line failed or did not
run. The work directory is then kept, as it is if the check was killed, and the same command runs only the
lines that have not passed.

Only the first 50 losses are compared, each relative to that of the same step on the CPU; the lines of
flags/aishell1 are compared with the first of them. Without TF32 only rounding differs: by 7e-6 after 50 steps
between one CPU replica and two (measured), so 1e-4 is allowed there, and 1e-3 between CPU and GPU, whose
functions differ in the last bits. TF32, float16 and bfloat16 keep 8 to 11 of 24 bits: 0.1 is allowed
(chosen), while the loss itself falls by 59 % and 29 %.
"""

from __future__ import annotations

import dataclasses
import time

from benchmarks.gpu_check import checks
from benchmarks.gpu_check import lines as lines_lib
from tfrecord_builder.program import config_flags, lazy_tensorflow, program


@dataclasses.dataclass(frozen=True)
class CheckConfig(config_flags.Checked):
    """The time limit, the number of parts of a GPU, and the directory."""

    limit_seconds: float = config_flags.setting(
        600.0,
        "time limit of the whole check; the current training is then cut off, and the others do not run",
        positive=True,
    )
    logical_gpus: int = config_flags.setting(
        1,
        "number of devices of 3 GiB to split one GPU into, if 2 or more; replicas are trained on them",
        positive=True,
    )
    work_dir: str = config_flags.setting(
        "gpu-check", "directory for data, models and finished lines; new, or from a check that was cut off"
    )


def main(config: CheckConfig) -> int:
    """Prints each line when it is known, and then a table; returns 1 if a line failed or did not run."""
    lazy_tensorflow.load().get_logger().setLevel("ERROR")
    start, lines, passed = time.monotonic(), [], lines_lib.Passed(config.work_dir)
    for line in checks.Checks(passed, config.limit_seconds, config.logical_gpus).run():
        print(f"{line.seconds:5.0f} s  {line.name}: {line.result}", flush=True)
        print("".join(f"         {each}\n" for each in line.details), end="", flush=True)
        lines.append(line)
    print("\n" + "\n".join(lines_lib.tabulate(lines)))
    kinds = (lines_lib.PASS, lines_lib.FAIL, lines_lib.NOT_RUN)
    passes, failures, left = (sum(line.result.startswith(each) for line in lines) for each in kinds)
    needs = len(lines) - passes - failures - left
    total = f"{passes} passed, {failures} failed, {left} did not run, {needs} need what this machine lacks"
    print(f"\n{total}; {time.monotonic() - start:.0f} s")
    if failures + left:
        print(f"the same command runs again what has not passed; to start over, delete {config.work_dir}")
        return 1
    passed.delete()
    return 0


if __name__ == "__main__":
    program.run(main, CheckConfig)
