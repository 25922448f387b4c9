"""Makes the archives for test_release_models with the installed TensorFlow release.

    make_release_models.py tests/data

For release 2.15, tensorflow-2.15.tar.xz has data, an acoustic and a language model, an export of both and
recordings; tensorflow-2.15.json has the results of this release with them (release_models.use).
"""

import json
import os
import pathlib
import sys
import tarfile
import tempfile

import numpy as np
import release_models
import small_corpora
import tensorflow as tf

from tfrecord_builder.program import tensorflow_release

TONES_HZ = {"ni3": 300, "hao3": 700, "ma5": 1500, "shi4": 3100}
CHARACTERS = {"ni3": "你妮", "hao3": "好郝", "ma5": "吗嘛", "shi4": "是事"}  # first in a sentence, and later
_UNUSED = ("events.out.tfevents.*", "eval", "*.html", "*.jsonl", "corpus", "training.lock")


def make(directory: str) -> None:
    """Builds data, trains and exports."""
    _make_corpus(os.path.join(directory, "corpus"))
    build = ["--corpus_dir=corpus", "--output_dir=data", "--num_mel_bins=12", "--num_shards=1"]
    release_models.run(directory, "build", *build, "--num_workers=1", package="tfrecord_builder")
    for name in release_models.MODELS:
        release_models.train(directory, name, release_models.STEPS[name])
    release_models.export_both(directory, "export")
    (version,) = os.listdir(os.path.join(directory, "export"))
    os.rename(os.path.join(directory, "export", version), os.path.join(directory, "export", "1"))


def _make_corpus(directory):
    """Makes sentences of one to three syllables, which are tones of 160 ms; dev is also served."""
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


def pack(directory: str, archive: str) -> None:
    """Packs the files that are needed; their headers do not depend on the machine."""

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
        release_models.extract(pathlib.Path(f"{prefix}.tar.xz"), pathlib.Path(work))
        found = json.dumps(release_models.use(work), indent=1, ensure_ascii=False)
    pathlib.Path(f"{prefix}.json").write_text(f"{found}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
