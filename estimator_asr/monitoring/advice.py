"""Builds the commands that messages suggest, ready to paste into a shell; data_dir is comma-separated."""

from __future__ import annotations

import shlex


def doctor(data_dir: str, model_dir: str = "") -> str:
    """Returns the command that checks the data and, if model_dir is set, the model."""
    model = [f"--model_dir={model_dir}"] if model_dir else []
    return command("estimator_asr.doctor", f"--data_dir={data_dir}", *model)


def show(data_dir: str) -> str:
    """Returns the command that shows a record from the first data directory."""
    return command("tfrecord_builder.show", f"--data_dir={data_dir.split(',')[0]}")


def verify(data_dir: str) -> str:
    """Returns the command that checks every record in the data directories."""
    return command("tfrecord_builder.verify", f"--data_dir={data_dir}")


def command(program: str, *flags: str) -> str:
    """Returns a shell-quoted command that runs one of this project's programs."""
    return shlex.join(["python", "-m", program, *flags])
