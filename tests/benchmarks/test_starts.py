"""Each benchmark runs on data that are too small for meaningful results."""

import importlib.util
import os
import re
import subprocess
import sys

import numpy as np
import paths
import pytest
import soundfile

# Name, packages that the benchmark compares with, and flags for the smallest run; the fixture `places`
# creates the files for names in braces. If a package is missing, only --help is run.
_STARTS = """
alignment [ctc_segmentation] --help
boundaries [espeakng_loader] --help
builder [kaldi_native_fbank] --num_files=3 --rounds=1 --program_hours=0.005 --worker_hours=0.005
    --memory_hours=0.005
builder_scale [] --num_rows=300
coverage [] --repetitions=2
decoding [ctc_beam_decoder] --num_utterances=16 --num_frames=20 --num_classes=30 --rounds=1
devices [ai_edge_litert onnxruntime tf2onnx] --seconds=0.6 --rounds=1 --starts=1 --encoder_layers=1
    --encoder_units=16
engines [ray pyspark] --help
gpu_check [] --limit_seconds=60 --work_dir={new}
hotwords [rjieba] --saved_model={export} --data_dir={data} --text_dir={data} --num_words=2 --rounds=1
input_methods [] {lines}
input_pipeline [] --num_utterances=3000
language [torch] --batch_size=4 --length=6 --num_tokens=9 --num_characters=20 --num_candidates=3
    --ngram_rows=31 --rounds=1
live [] --saved_model={export} --audio_dir={audio} --clip_seconds=0.8 --num_clients=1 --seconds=0.1
    --picture={new}
noise [] --saved_model={export} --data_dir={data} --minutes=0.3
pauses [] --help
pretrained [torch] --whisper_layers=3 --whisper_units=64 --encoder_layers=1 --encoder_units=16
    --batch_size=3 --num_frames=40 --max_tokens=4 --num_classes=9 --rounds=1
real_time [torch kaldi_native_fbank] --seconds=0.6 --num_cores=1 --rounds=1
serving [] --saved_model={export} --audio_dir={audio} --clip_seconds=0.8 --num_clients=2 --seconds=0.5
    --serial_seconds=0.3 --bare_seconds=0.1
softmax [sentencepiece] --text_dir={text} --vocabulary_size=14 --num_sampled=3 --units=8 --batch_size=4
    --steps=4 --evaluations=2
spec_augment [tensorflow_io]
streaming [torch onnx sherpa_onnx] --seconds=0.7 --num_cores=1 --rounds=1
suspects [] --saved_model={export} --corpus_dir={audio} --first_seed=1 --last_seed=1
train_step [torch] --estimator_steps=2 --encoder_layers=1 --encoder_units=16 --batch_size=3
    --num_frames=40 --max_tokens=4 --num_classes=9 --rounds=1
transcription [ctranslate2] --num_recordings=3 --train_epochs=1 --whisper_layers=3 --whisper_units=64
    --rounds=1
writing [] --help
"""
STARTS = {line.split()[0]: line for line in _STARTS.strip().replace("\n ", " ").split("\n")}


@pytest.fixture(scope="module")
def audio_dir(tmp_path_factory):
    """Recordings of noise with a manifest whose splits are train and dev."""
    path = tmp_path_factory.mktemp("audio")
    rows = ["id\taudio\tspeaker\ttext\tpinyin\tsplit"]
    for number in range(8):
        samples = np.random.default_rng(number).normal(0, 0.1, 8000)
        soundfile.write(path / f"{number}.wav", samples, 16000, subtype="PCM_16")
        split = "dev" if number % 2 else "train"
        rows.append(f"{number}\t{number}.wav\ts{number}\t我们去北京吧\two3 men5 qu4 bei3 jing1 ba5\t{split}")
    (path / "manifest.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data_dir(audio_dir, tmp_path_factory):
    """Records of these recordings, with the feature settings of the tiny export."""
    path = tmp_path_factory.mktemp("built") / "data"
    flags = f"--corpus=manifest --corpus_dir={audio_dir} --output_dir={path} --num_shards=1 --num_mel_bins=20"
    assert start("tfrecord_builder.build", flags.split()).returncode == 0
    return path


@pytest.fixture
def places(request, tmp_path):
    """Returns a function that creates the file or directory for a name in braces, and returns its path."""

    def make(name):
        if name == "export":
            return request.getfixturevalue("tiny_export").export_dir
        if name in ("audio", "data"):
            return request.getfixturevalue(f"{name}_dir")
        if name == "text":
            rows = ["hanzi\tpinyin", *["你好吗我好你们好\t"] * 20, *["天好\t"] * 20]
            for split in ("train", "dev"):
                (tmp_path / f"{split}.tsv").write_text("\n".join(rows), encoding="utf-8")
            return tmp_path
        if name == "lines":
            (tmp_path / "dev.tsv").write_text("hanzi\tpinyin\n你好\tni3 hao3\n", encoding="utf-8")
            return tmp_path / "dev.tsv"
        return tmp_path / "new"

    return make


def start(program, flags):
    command = [sys.executable, "-m", program, *flags]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(command, cwd=paths.ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", STARTS)
def test_it_starts(name, places):
    packages, flags = re.fullmatch(r"\w+ \[(.*)\](.*)", STARTS[name]).groups()
    if any(importlib.util.find_spec(package) is None for package in packages.split()):
        flags = "--help"
    words = [word.format_map(Places(places)) for word in flags.split()]
    done = start(f"benchmarks.{name}", words)
    assert "Traceback" not in done.stderr and done.stdout, done.stderr
    assert done.returncode in (0, 1), done.stderr  # 1: a result misses its limit
    assert "apart by millionths" not in "".join(each for each in done.stdout.splitlines() if "FAIL" in each)


class Places(dict):
    """Creates only the files and directories that a command names."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def __missing__(self, name):
        return str(self.make(name))


def test_every_benchmark_is_started():
    root = paths.ROOT / "benchmarks"
    programs = {path.parent.name for path in root.glob("*/__main__.py")}
    programs |= {path.stem for path in root.glob("*.py") if "__main__" in path.read_text("utf-8")}
    assert programs == set(STARTS)
