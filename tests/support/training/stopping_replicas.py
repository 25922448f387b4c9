"""A program for test_stopping: two CPU replicas under a plateau schedule that learn nothing until early
stopping ends them; prints what came out as JSON.

It needs a process of its own, because a process makes its CPU devices once.
"""

from __future__ import annotations

import dataclasses
import glob
import json
import pathlib
import sys

import loop_models
import tensorflow as tf

from estimator_asr.experiment import training_config
from estimator_asr.training import loop
from estimator_asr.training.checkpointing import evaluation_log


def make_model(path, num_replicas=1, patience=2, **train):
    optimizer = training_config.OptimizerConfig(
        learning_rate=1e-12, warmup_epochs=0, schedule="plateau", plateau_evaluations=1
    )
    model, infos, dirs = loop_models.make_model(
        path,
        optimizer=optimizer,
        save_checkpoints_steps=2,
        save_summary_steps=1,
        num_cpu_replicas=num_replicas,
        **train,
    )
    stopping = training_config.StoppingConfig(early_stopping_evaluations=patience)
    settings = dataclasses.replace(model.config, stopping=stopping)
    return dataclasses.replace(model, config=settings), infos, dirs


def read_rates(model) -> dict[int, float]:
    """The learning rate by the number of steps that its step made whole; the first step's is 1."""
    rates = {}
    for path in glob.glob(f"{model.path}/events.out.tfevents.*"):
        for event in tf.compat.v1.train.summary_iterator(path):
            for value in event.summary.value:
                if value.tag == "learning-rate":
                    rates[event.step] = value.simple_value
    return {step: rates[step] / rates[min(rates)] for step in sorted(rates)}


def main():
    tf.compat.v1.disable_eager_execution()
    model, infos, dirs = make_model(pathlib.Path(sys.argv[1]), num_replicas=2, train_steps=40)
    loop.train(model, infos, dirs)
    steps = [evaluation.step for evaluation in evaluation_log.read(model.path)]
    print(json.dumps({"evaluated": steps, "rates": read_rates(model)}))


if __name__ == "__main__":
    main()
