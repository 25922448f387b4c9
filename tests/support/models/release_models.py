"""Uses the small models that another TensorFlow release has trained (see make_release_models.py)."""

import contextlib
import os
import pathlib
import tarfile

import event_files
import numpy as np
import programs
import tensorflow as tf

from estimator_asr import average, evaluate, export
from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.scoring import utterances
from estimator_asr.training.checkpointing import evaluation_log

STEPS = {"am": 1200, "lm": 40}
MORE_STEPS = 4  # number of steps after which the continued training ends
TRAIN = [
    *("--data_dir=data", "--learning_rate=0.003", "--warmup_epochs=0"),
    *("--notry_worst_batch", "--show_utterances=0", "--save_summary_steps=1", "--keep_best_checkpoints=2"),
    "--nowatchdog",
]
MODELS = {
    "am": [
        *("--model=acoustic", "--batch_frames=200", "--encoder_layers=1", "--encoder_units=8"),
        "--encoder_inner_units=8",
    ],
    "lm": [
        *("--model=language", "--batch_tokens=12", "--language_layers=1", "--language_units=8"),
        *("--language_inner_units=8", "--ngram_rows=31", "--ngram_units=4"),
    ],
}


def use(directory: str) -> dict:
    """Evaluates, averages, exports and serves the models in a directory, then continues their training.

    Returns:
        For each model: "errors" on dev with the best checkpoint and with the "averaged" checkpoints; "losses"
        and "gradient_norms" of the next steps; the metrics on "dev" and "sums" of squares of all variables
        after these steps. "served" and "exported": the responses of the stored export and of a new export.
    """
    found = {"tensorflow": tf.__version__}
    export_both(directory, "export-new")
    found["served"], found["exported"] = (_serve(directory, name) for name in ("export", "export-new"))
    for name in MODELS:
        found[name] = {"errors": _evaluate(directory, name)}
        average.average(average.AverageConfig(os.path.join(directory, name)))
        found[name]["averaged"] = _evaluate(directory, f"{name}/averaged")
        train(directory, name, STEPS[name] + MORE_STEPS)
        found[name].update(_describe_training(os.path.join(directory, name), STEPS[name]))
    return found


def extract(archive: pathlib.Path, directory: pathlib.Path) -> str:
    with tarfile.open(archive) as file:
        # Python before 3.10.12 and 3.11.4 has no filters.
        options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        file.extractall(directory, **options)
    return str(directory)


def train(directory, name, steps):
    flags = [f"--model_dir={name}", f"--train_steps={steps}", f"--save_checkpoints_steps={STEPS[name] // 2}"]
    run(directory, "train", *TRAIN, *MODELS[name], *flags)


def run(directory, program, *flags, package="estimator_asr"):
    done = programs.run(f"{package}.{program}", *flags, cwd=directory)
    if done.returncode:
        raise ValueError(f"{program} {' '.join(flags)}: {done.stderr[-3000:]}")


def export_both(directory, name):
    acoustic, language, path = (os.path.join(directory, each) for each in ("am", "lm", name))
    export.export(export.ExportConfig(acoustic, language, export_dir=path, decoding="greedy"))


def _evaluate(directory, name):
    model, data, report = (os.path.join(directory, each) for each in (name, "data", "report"))
    config = evaluate.EvaluateConfig(model, None, (data,), "dev", report, decoding="greedy")
    metrics = evaluate.evaluate(config)
    rates = (metrics[name] for name in utterances.MEASURES if name in metrics)
    return [[rate["errors"], rate["reference_length"]] for rate in rates]


def _serve(directory, export):
    model = recogniser.load(recogniser.find_version(os.path.join(directory, export)), "serving_default")
    with contextlib.closing(model.session):
        recordings = sorted(pathlib.Path(directory, "recordings").iterdir())
        return [model.run({"wav_bytes": [path.read_bytes()]}) for path in recordings]


def _describe_training(model_dir, first_step):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(model_dir))
    values = {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}
    last = evaluation_log.read_evaluations(model_dir)[-1]
    scalars = {tag: _read_scalar(model_dir, tag, first_step) for tag in ("loss", "gradient-norm")}
    return {
        "losses": scalars["loss"],
        "gradient_norms": scalars["gradient-norm"],
        "dev": last.metrics,
        "sums": {name: float(np.sum(np.square(np.float64(value)))) for name, value in values.items()},
    }


def _read_scalar(model_dir, tag, first_step):
    """Returns the values after a step, in the order of the steps."""
    return [
        value for step, value in sorted(event_files.read_scalars(model_dir, tag).items()) if step > first_step
    ]
