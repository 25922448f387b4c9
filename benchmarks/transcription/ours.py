"""Our side of benchmarks/transcription.py: a model that the programs make, and how transcribe calls it."""

import os
import subprocess
import sys
from collections.abc import Sequence

import numpy as np

from benchmarks.builder import corpus as builder_corpus
from estimator_asr.exporting.saved_model import export_info, recogniser
from tfrecord_builder import errors
from tfrecord_builder.data import manifest

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_HANZI = {
    "jin1tian1": "今天",
    "wo3men5": "我们",
    "qu4": "去",
    "bei3jing1": "北京",
    "tian1qi4": "天气",
    "hen2hao3": "很好",
    "ni3": "你",
    "xi3huan5": "喜欢",
    "he1": "喝",
    "cha2": "茶",
    "peng2you5": "朋友",
    "shi2hou5": "时候",
    "ma5": "吗",
}


def make_corpus(directory: str, num_recordings: int) -> str:
    """Speaks sentences of about eight seconds into a corpus with manifest.tsv; returns its directory.

    All sentences are in train, and the first is also in dev, because training evaluates.
    """
    os.makedirs(directory)
    utterances = []
    for number, spoken in enumerate(builder_corpus.make_recordings(directory, num_recordings)["wav"]):
        text = "".join(_HANZI[token] for token in spoken.tokens)
        for split in ("train", "dev") if number == 0 else ("train",):
            utterances.append(manifest.Utterance(f"{split}{number}", spoken.path, "", text, "", split))
    manifest.write_manifest(os.path.join(directory, manifest.MANIFEST_FILE), utterances)
    return directory


def make_saved_model(corpus_dir: str, weights_dir: str, directory: str, train_epochs: int) -> str:
    """Builds, encodes, trains both models with flags/whisper, and exports; returns the export directory.

    The encoder stays frozen: training its blocks would take longer, and would not change the result.

    Raises:
        errors.UserError: a program failed; it has printed why.
    """
    data, encoded, acoustic, language, export = (
        os.path.join(directory, name) for name in ("data", "encoded", "acoustic", "language", "export")
    )
    where = (f"--corpus_dir={corpus_dir}", f"--output_dir={data}")
    _run("tfrecord_builder.build", "--flagfile=flags/whisper/build.flags", *where)
    _run("estimator_asr.encode", f"--weights={weights_dir}", f"--data_dir={data}", f"--output_dir={encoded}")
    epochs = (f"--train_epochs={train_epochs}", "--decay_boundary_epochs=", "--decay_factors=1")
    for name, data_dir, model_dir, more in (
        ("acoustic", encoded, acoustic, ("--trainable_blocks=0",)),
        ("language", data, language, ()),
    ):
        where = (f"--data_dir={data_dir}", f"--model_dir={model_dir}")
        _run("estimator_asr.train", f"--flagfile=flags/whisper/{name}.flags", *epochs, *where, *more)
    models = (f"--acoustic_model_dir={acoustic}", f"--language_model_dir={language}")
    _run("estimator_asr.export", *models, f"--export_dir={export}")
    return export


class Transcriber:
    """An exported model, called as estimator_asr.transcribe calls it."""

    def __init__(self, saved_model: str):
        version_dir = recogniser.find_version(saved_model)
        self.sample_rate = export_info.load(version_dir).frontend.sample_rate
        self._model = recogniser.load(version_dir, "waveform")

    def transcribe(self, waveform: np.ndarray) -> str:
        """Returns the transcript of a waveform, float32 [num_samples]."""
        batch = {"waveform": waveform[np.newaxis], "num_samples": np.array([waveform.size], np.int32)}
        return self._model.run(batch)["transcript"][0]


def _run(module: str, *flags: str) -> None:
    command: Sequence[str] = (sys.executable, "-m", module, *flags)
    print(f"python -m {module} ...", flush=True)
    done = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        print(done.stdout, file=sys.stderr)
        raise errors.UserError(
            f"benchmarks: {module} failed with exit code {done.returncode}; see its message above"
        )
