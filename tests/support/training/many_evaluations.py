"""A program for test_memory: evaluates a tiny model after each training step, and prints memory use in MiB.

    python tests/support/training/many_evaluations.py DIRECTORY NUM_EVALUATIONS

It runs in its own process, because other tests leave their graphs in memory.
"""

import os
import pathlib
import sys

import small_models
import tensorflow as tf

from estimator_asr.training import evaluation, loop


def main():
    tf.compat.v1.disable_eager_execution()
    finish = evaluation.DevEvaluator.finish

    def finish_and_print(*args):
        finish(*args)
        resident_pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
        print(f"{resident_pages * os.sysconf('SC_PAGE_SIZE') / 2**20:.1f}", flush=True)

    evaluation.DevEvaluator.finish = finish_and_print
    options = {"train_steps": int(sys.argv[2]), "save_checkpoints_steps": 1}
    loop.train(*small_models.make_for_loop(pathlib.Path(sys.argv[1]), **options))


if __name__ == "__main__":
    main()
