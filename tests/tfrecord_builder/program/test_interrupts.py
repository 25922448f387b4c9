"""Ctrl-C during the imports of a program prints no traceback."""

import os
import signal
import subprocess
import sys

import paths
import program_flags
import pytest

from tfrecord_builder.program import interrupts

RUNTIME = ("estimator_asr_runtime.transcribe", "estimator_asr_runtime.page")
# Source of a fake package that every program imports before it parses its flags.
INTERRUPTING = "import os, signal; os.kill(os.getpid(), signal.SIGINT); raise SystemExit(7)"


@pytest.mark.parametrize("module", [*program_flags.programs(), *RUNTIME])
@pytest.mark.parametrize("handler, code", [(signal.SIG_DFL, 130), (signal.SIG_IGN, 7)])
def test_ctrl_c_during_imports_prints_no_traceback(module, handler, code, tmp_path):
    (tmp_path / ("numpy.py" if module in RUNTIME else "absl.py")).write_text(INTERRUPTING, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", module],
        cwd=paths.ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
    )
    assert (done.returncode, done.stdout) == (code, "")
    assert code == 7 or done.stderr == ""  # a failed import shows TensorFlow's log lines


def test_sigint_is_unchanged_in_an_imported_module_or_if_it_is_ignored():
    before = signal.getsignal(signal.SIGINT)
    try:
        for handler in (signal.SIG_IGN, signal.default_int_handler):
            signal.signal(signal.SIGINT, handler)
            interrupts.exit_at_once("__main__" if handler is signal.SIG_IGN else "estimator_asr.train")
            assert signal.getsignal(signal.SIGINT) is handler
            interrupts.raise_again()
            assert signal.getsignal(signal.SIGINT) is handler
        interrupts.exit_at_once("__main__")
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        interrupts.raise_again()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
