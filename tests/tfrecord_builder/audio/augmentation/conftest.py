import os
import subprocess
import sys

import paths
import pytest
import small_augmentation


@pytest.fixture
def folders(tmp_path):
    return small_augmentation.make_folders(tmp_path)


@pytest.fixture
def run_twice():
    """Returns a function that runs code with two hash seeds, compares the outputs and returns the output."""

    def run(*arguments):
        command = [sys.executable, "-c", *arguments]
        first, second = (
            subprocess.check_output(
                command, env={**os.environ, "PYTHONHASHSEED": seed}, cwd=paths.ROOT, text=True
            )
            for seed in "12"
        )
        assert first == second
        return first

    return run
