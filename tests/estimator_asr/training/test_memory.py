"""Evaluations do not increase the memory that training uses; set NUM_EVALUATIONS=200 for a longer test."""

import os
import subprocess
import sys

import paths
import pytest

NUM_EVALUATIONS = int(os.environ.get("NUM_EVALUATIONS", "7"))
WARM = 4  # number of evaluations during which TensorFlow still creates threads and caches


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_evaluations(tmp_path):
    command = [sys.executable, paths.script("many_evaluations.py"), str(tmp_path), str(NUM_EVALUATIONS)]
    environment = {**os.environ, "PYTHONPATH": paths.PYTHONPATH, "TF_CPP_MIN_LOG_LEVEL": "3"}
    completed = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200 + 15 * NUM_EVALUATIONS
    )
    assert completed.returncode == 0, completed.stderr[-3000:]
    memory = [float(line) for line in completed.stdout.split()]
    assert len(memory) == NUM_EVALUATIONS
    # Each evaluation would add 7 MiB without gc.collect(). Summaries and the allocator may add a little.
    assert memory[-1] - memory[WARM - 1] < 16 + 0.1 * NUM_EVALUATIONS, memory
