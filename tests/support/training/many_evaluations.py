"""A program for test_memory: trains a tiny model and evaluates it after every step; prints the resident
memory in MiB after each evaluation.

    python tests/support/training/many_evaluations.py DIRECTORY NUM_EVALUATIONS

It needs a process of its own, because other tests leave their graphs behind.
"""

import os
import pathlib
import sys

import small_models
import tensorflow as tf

from estimator_asr.training import evaluation, loop


def read_memory() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main():
    tf.compat.v1.disable_eager_execution()
    finish = evaluation.DevEvaluator.finish

    def finish_and_print(*args):
        finish(*args)
        print(f"{read_memory():.1f}", flush=True)

    evaluation.DevEvaluator.finish = finish_and_print
    steps = int(sys.argv[2])
    loop.train(
        *small_models.make_for_loop(pathlib.Path(sys.argv[1]), train_steps=steps, save_checkpoints_steps=1)
    )


if __name__ == "__main__":
    main()
