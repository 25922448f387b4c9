"""Small models that a TensorFlow release has trained, for every release to go on with.

    release_models.py tests/data

Makes tensorflow-2.15.tar.xz (or of the release that runs it) with data, an acoustic and a language model, an
export of both and recordings, and tensorflow-2.15.json with what that release then gets from them (`use`).
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import sys
import tarfile
import tempfile

import numpy as np
import programs
import small_corpora
import tensorflow as tf

from estimator_asr import average, evaluate, export
from estimator_asr.checkpointing import evaluation_log
from estimator_asr.serving import recogniser
from tfrecord_builder import tensorflow_release

TONES_HZ = {"ni3": 300, "hao3": 700, "ma5": 1500, "shi4": 3100}
CHARACTERS = {"ni3": "你妮", "hao3": "好郝", "ma5": "吗嘛", "shi4": "是事"}  # first in a sentence, and later
STEPS = {"am": 1200, "lm": 40}
MORE_STEPS = 4  # of the continued training
TRAIN = [
    *("--data_dir=data", "--learning_rate=0.003", "--warmup_epochs=0", "--eval_throttle_seconds=0"),
    *("--notry_worst_batch", "--show_utterances=0", "--save_summary_steps=1", "--keep_best_checkpoints=2"),
    *("--keep_checkpoint_max=1", "--nowatchdog"),
]
MODELS = {
    "am": [
        *("--model=acoustic", "--batch_frames=200", "--encoder_layers=1", "--encoder_units=8"),
        *("--encoder_inner_units=8", "--attention_heads=2", "--subsampling_channels=4"),
    ],
    "lm": [
        *("--model=language", "--batch_tokens=12", "--language_layers=1", "--language_units=8"),
        *("--language_inner_units=8", "--language_heads=2", "--ngram_rows=31", "--ngram_units=4"),
    ],
}
_UNUSED = ("events.out.tfevents.*", "eval", "*.html", "*.jsonl", "corpus", "training.lock")


def use(directory: str) -> dict:
    """Evaluates, averages, continues, exports and serves the models of a directory, which this changes.

    Returns:
        By model: "errors" on dev of the best checkpoint and of the "averaged" ones, the "losses" and gradient
        norms of the next steps, the metrics on "dev" after them, and "sums" of the squares of the weights,
        slots and moving averages then. "served": what the export answers to each recording; "exported": what
        a new export of the first checkpoints does.
    """
    found = {"tensorflow": tf.__version__}
    _export(directory, "export-new")
    found["served"], found["exported"] = (_serve(directory, name) for name in ("export", "export-new"))
    for name in MODELS:
        found[name] = {"errors": _evaluate(directory, name)}
        average.average(average.AverageConfig(os.path.join(directory, name)))
        found[name]["averaged"] = _evaluate(directory, f"{name}/averaged")
        _train(directory, name, STEPS[name] + MORE_STEPS)
        found[name].update(_describe_training(os.path.join(directory, name), STEPS[name]))
    return found


def extract(archive: pathlib.Path, directory: pathlib.Path) -> str:
    with tarfile.open(archive) as file:
        # Python 3.9.0 to 3.9.16 and 3.10.0 to 3.10.11 have no filters.
        options = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        file.extractall(directory, **options)
    return str(directory)


def make(directory: str) -> None:
    """Builds data, trains and exports."""
    _make_corpus(os.path.join(directory, "corpus"))
    build = ["--corpus_dir=corpus", "--output_dir=data", "--num_mel_bins=12", "--num_shards=1"]
    _run(directory, "build", *build, "--num_workers=1", package="tfrecord_builder")
    for name in MODELS:
        _train(directory, name, STEPS[name])
    _export(directory, "export")
    (version,) = os.listdir(os.path.join(directory, "export"))
    os.rename(os.path.join(directory, "export", version), os.path.join(directory, "export", "1"))


def _make_corpus(directory):
    """Sentences of one to three syllables, each a tone of 160 ms; those of dev are also served."""
    syllables, lines = sorted(TONES_HZ), ["id\taudio\tspeaker\ttext\tpinyin\tsplit"]
    for i in range(15):
        said = [syllables[(i + j) % 4] for j in range(1 + i % 3)]
        rng, split = np.random.RandomState(i), "train" if i < 12 else "dev"
        tones = np.concatenate([np.pad(small_corpora.tone(0.16, TONES_HZ[each]), 800) for each in said])
        samples = np.float32(tones + 0.01 * rng.standard_normal(len(tones)))
        folder = "recordings" if split == "dev" else "corpus"
        small_corpora.write_audio(os.path.join(directory, "..", folder, f"u{i:02d}.wav"), samples)
        text, pinyin = "".join(CHARACTERS[each][j > 0] for j, each in enumerate(said)), " ".join(said)
        lines.append(f"u{i:02d}\t../{folder}/u{i:02d}.wav\t{'ab'[i % 2]}\t{text}\t{pinyin}\t{split}")
    small_corpora.write_text(os.path.join(directory, "manifest.tsv"), "\n".join(lines) + "\n")


def _train(directory, name, steps):
    flags = [f"--model_dir={name}", f"--train_steps={steps}", f"--save_checkpoints_steps={STEPS[name] // 2}"]
    _run(directory, "train", *TRAIN, *MODELS[name], *flags)


def _run(directory, program, *flags, package="estimator_asr"):
    done = programs.run(f"{package}.{program}", *flags, cwd=directory)
    if done.returncode:
        raise ValueError(f"{program} {' '.join(flags)}: {done.stderr[-3000:]}")


def _export(directory, name):
    export.export(export.ExportConfig(*(os.path.join(directory, each) for each in ("am", "lm", name))))


def _evaluate(directory, name):
    model, data, report = (os.path.join(directory, each) for each in (name, "data", "report"))
    config = evaluate.EvaluateConfig(model_dir=model, data_dir=(data,), split="dev", output_dir=report)
    metrics = evaluate.evaluate(config)
    rates = (value for value in metrics.values() if isinstance(value, dict) and "errors" in value)
    return [[rate["errors"], rate["reference_length"]] for rate in rates]


def _serve(directory, export):
    model = recogniser.load(recogniser.find_version(os.path.join(directory, export)), "serving_default")
    with contextlib.closing(model.session):
        recordings = sorted(pathlib.Path(directory, "recordings").iterdir())
        return [model.run({"wav_bytes": [path.read_bytes()]}) for path in recordings]


def _describe_training(model_dir, first_step):
    reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(model_dir))
    values = {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}
    last = evaluation_log.read(model_dir)[-1]
    scalars = {tag: _read_scalar(model_dir, tag, first_step) for tag in ("loss", "gradient-norm")}
    return {
        "losses": scalars["loss"],
        "gradient_norms": scalars["gradient-norm"],
        "dev": last.metrics,
        "sums": {name: float(np.sum(np.square(np.float64(value)))) for name, value in values.items()},
    }


def _read_scalar(model_dir, tag, first_step):
    """Values after a step, in the order of the steps."""
    found = {}
    for path in pathlib.Path(model_dir).glob("events.out.tfevents.*"):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                if value.tag == tag:
                    found[event.step] = _to_number(value)
    return [found[step] for step in sorted(found) if step > first_step]


def _to_number(value):
    return tf.make_ndarray(value.tensor).item() if value.HasField("tensor") else value.simple_value


def pack(directory: str, archive: str) -> None:
    """Writes the files that are needed, with nothing of the machine in their headers."""

    def clean(member):
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    with tarfile.open(archive, "w:xz", preset=9) as file:
        for path in sorted(pathlib.Path(directory).rglob("*")):
            name = path.relative_to(directory)
            if not any(pathlib.PurePath(part).match(pattern) for part in name.parts for pattern in _UNUSED):
                file.add(path, str(name), recursive=False, filter=clean)


def main(directory):
    prefix = os.path.join(directory, f"tensorflow-{tensorflow_release.find(tf.__version__).version}")
    with tempfile.TemporaryDirectory() as work:
        make(work)
        pack(work, f"{prefix}.tar.xz")
    with tempfile.TemporaryDirectory() as work:
        found = use(extract(pathlib.Path(f"{prefix}.tar.xz"), pathlib.Path(work)))
    pathlib.Path(f"{prefix}.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
