"""Runs JavaScript of the pages in Node."""

import json
import os
import pathlib
import shutil
import subprocess
from collections.abc import Sequence

import paths
import pytest

WEB = paths.ROOT / "estimator_asr_runtime" / "web"
NEEDS_ONNXRUNTIME_WEB = pytest.mark.skipif(
    "ONNXRUNTIME_WEB" not in os.environ,
    reason="ONNXRUNTIME_WEB is not set to the directory of onnxruntime-web: npm pack onnxruntime-web",
)


def run(directory: pathlib.Path, program: str, scripts: Sequence[str], *arguments: str):
    """Runs a program beside copies of scripts from WEB; returns the JSON that it prints.

    The working directory is `directory`. Without Node, the test is skipped.
    """
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    for script in scripts:
        shutil.copy(WEB / script, directory)
    (directory / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    (directory / "program.js").write_text(program, encoding="utf-8")
    command = ["node", "program.js", *arguments]
    options = {"cwd": directory, "capture_output": True, "text": True, "encoding": "utf-8"}
    done = subprocess.run(command, **options, check=True, timeout=120)
    return json.loads(done.stdout)
