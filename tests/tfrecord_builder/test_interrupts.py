"""Ctrl-C before main, sent to the programs themselves."""

from __future__ import annotations

import ast
import pathlib
import signal
import subprocess
import sys
import time

import paths
import program_flags
import pytest

ROOT = paths.ROOT
HEADER = """
from tfrecord_builder import interrupts
if __name__ == "__main__":
    interrupts.end_quietly()
"""


@pytest.mark.parametrize(
    "program, library, seconds",
    [
        ("estimator_asr.train", "absl", 0.0),
        ("estimator_asr.train", "tensorflow", 0.0),
        ("estimator_asr.train", "tensorflow", 0.3),
        ("tfrecord_builder.build", "absl", 0.0),
        ("tfrecord_builder.build", "numpy", 0.0),  # TensorFlow it loads in main
    ],
)
def test_ctrl_c_while_a_library_is_imported_is_one_line(program, library, seconds):
    command = [sys.executable, "-v", "-m", program]  # -v names each module that is imported
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    for line in process.stderr:
        if line.startswith(f"import '{library}"):
            break
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    assert process.wait(60) == 130 and said.endswith("interrupted\n"), said[-500:]
    assert "Traceback" not in said and "KeyboardInterrupt" not in said


@pytest.mark.parametrize("program", program_flags.programs())
def test_every_program_is_ready_for_ctrl_c_before_it_imports_anything(program):
    source = (ROOT / pathlib.Path(*program.split("."))).with_suffix(".py").read_text(encoding="utf-8")
    _, future, *nodes = ast.parse(source).body
    assert future.module == "__future__"
    assert list(map(ast.dump, nodes[:2])) == list(map(ast.dump, ast.parse(HEADER).body))


def test_an_ignored_interrupt_stays_ignored():
    code = (
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from tfrecord_builder import interrupts\n"
        "interrupts.end_quietly(); os.kill(os.getpid(), signal.SIGINT); print('continues')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "continues\n")


def test_in_main_it_raises_again(monkeypatch):
    code = (
        "import os, signal\nfrom tfrecord_builder import interrupts\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "interrupts.end_quietly(); interrupts.raise_again()\n"
        "try: os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt: print('raised')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "raised\n")
