"""The files of an export: versions and contents; TensorFlow runs the export without this project."""

import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys

import numpy as np
import paths
import pytest
import soundfile
import tensorflow as tf
import tiny_models

from estimator_asr.exporting.saved_model import export_info, recogniser, saved_model_writer, stream_client

BARE_PROCESS = """
import json, sys
import tensorflow as tf
assert not any(name.startswith(("estimator_asr", "tfrecord_builder")) for name in sys.modules)
model = tf.saved_model.load(sys.argv[1])
wavs = [open(path, "rb").read() for path in sys.argv[2:]]
outputs = model.signatures["serving_default"](wav_bytes=tf.constant(wavs))
print(json.dumps({name: [item.decode() if isinstance(item, bytes) else float(item) for item in value.numpy()]
                  for name, value in outputs.items() if value.shape.rank == 1}))
"""


def run_bare(code, *arguments, cwd):
    """Runs Python without this project's directory and without PYTHONPATH; returns the output."""
    command = [sys.executable, "-I", *code, *map(str, arguments)]
    completed = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


@pytest.mark.long
def test_tensorflow_alone_loads_and_runs_a_moved_export(tiny_export, tmp_path):
    moved = shutil.copytree(tiny_export.version_dir, tmp_path / "elsewhere" / "1")
    waveforms = [row[-1] for row in tiny_export.utterances.values()][:3]
    files = [tmp_path / f"{index}.wav" for index in range(3)]
    for file, waveform in zip(files, waveforms):
        soundfile.write(file, waveform, tiny_models.FRONTEND.sample_rate, subtype="PCM_16")
    answer = json.loads(run_bare(["-c", BARE_PROCESS], moved, *files, cwd=tmp_path))
    model = recogniser.load(tiny_export.version_dir, "serving_default")
    expected = model.run({"wav_bytes": [file.read_bytes() for file in files]})
    assert answer["transcript"] == expected["transcript"] != [""] * 3
    assert answer["pinyin"] == expected["pinyin"]
    assert answer["acoustic_score"] == pytest.approx(expected["acoustic_score"], rel=1e-4)


def find_programs() -> list[str]:
    page = (paths.ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


@pytest.mark.long
def test_the_streaming_example_in_the_docs_runs(streaming_export, tmp_path):
    (tmp_path / "EXPORT").mkdir()
    version_dir = recogniser.find_version(streaming_export)
    (tmp_path / "EXPORT" / "VERSION").symlink_to(version_dir)
    waveform = tiny_models.make_waveform(20000, seed=1)
    np.save(tmp_path / "speech.npy", waveform)
    load = "import numpy\npieces = numpy.array_split(numpy.load('speech.npy'), 4)\n"
    lines = run_bare(["-c", load + find_programs()[1]], cwd=tmp_path).splitlines()
    streams = stream_client.find(recogniser.load_version(version_dir), "stream")
    whole = {"waveform": waveform[None], "num_samples": [20000], "is_last": [True]}
    expected, _ = streams.feed(streams.start(1), whole)
    assert len(lines) == 4 and lines[-1] == expected["transcript"][0] != ""


@pytest.mark.long
def test_the_example_program_in_the_docs_transcribes(tiny_export, tmp_path):
    program, _ = find_programs()
    (tmp_path / "EXPORT").mkdir()
    (tmp_path / "EXPORT" / "VERSION").symlink_to(tiny_export.version_dir)
    waveform = next(iter(tiny_export.utterances.values()))[-1]
    soundfile.write(tmp_path / "speech.wav", waveform, tiny_models.FRONTEND.sample_rate, subtype="PCM_16")
    expected = recogniser.load(tiny_export.version_dir, "serving_default").run(
        {"wav_bytes": [(tmp_path / "speech.wav").read_bytes()]}
    )
    assert run_bare(["-c", program], cwd=tmp_path).split() == expected["transcript"]


@pytest.mark.slow
def test_saved_model_cli_shows_the_signatures(tiny_export, tmp_path):
    cli = ["-m", "tensorflow.python.tools.saved_model_cli"]
    shown = run_bare(cli, "show", "--dir", tiny_export.version_dir, "--all", cwd=tmp_path)
    for signature, inputs in (
        ("serving_default", ["wav_bytes"]),
        ("waveform", ["waveform", "num_samples"]),
        ("features", ["fbank", "num_frames"]),
    ):
        section = shown.split(f"signature_def['{signature}']")[1].split("signature_def[")[0]
        for name in inputs:
            assert f"inputs['{name}']" in section
        for name in ("transcript", "pinyin", "acoustic_score", "language_score"):
            assert f"outputs['{name}']" in section


def test_export_json_describes_the_models(tiny_export):
    info = export_info.load(tiny_export.version_dir)
    assert (info.frontend, info.token_type) == (tiny_models.FRONTEND, "syllable")
    assert info.input == {"batch_frames": 16000, "num_buckets": 12}
    decode = info.acoustic.decode
    assert (decode["decoding"], decode["beam_width"], decode["ngram_weight"]) == ("beam", "10", "0.0")
    assert info.acoustic == export_info.ModelInfo(7, tiny_models.TOKENS.sha256, decode=decode)
    files = tiny_models.OTHER_TOKENS, tiny_models.CHARACTERS, tiny_models.READINGS
    assert info.language == export_info.ModelInfo(7, *(file.sha256 for file in files), decode)
    assert info.unread == export_info.UnreadTokens(("ma5", "shi4", "tian1"), 5)


def test_vocabularies_are_assets(tiny_export):
    assets = pathlib.Path(tiny_export.version_dir, "assets")
    contents = {path.name: path.read_text("utf-8").split() for path in assets.iterdir()}
    assert contents == {
        "tokens.txt": list(tiny_models.TOKENS.tokens),
        "tokens.txt_1": list(tiny_models.OTHER_TOKENS.tokens),
        "characters.txt": list(tiny_models.CHARACTERS.tokens),
    }


@pytest.mark.long
def test_version_numbers_increase_and_older_versions_stay(tiny_export, trained_models, tmp_path):
    export_dir = tmp_path / "export"
    future = 4102444800  # the year 2100: if a clock goes back, the newest version must stay the newest
    shutil.copytree(tiny_export.version_dir, export_dir / str(future))
    path = saved_model_writer.write(trained_models[0], None, str(export_dir))
    assert path == str(export_dir / str(future + 1))
    assert sorted(os.listdir(export_dir)) == [str(future), str(future + 1)]
    assert export_info.load(path).language is None


@pytest.mark.long
def test_simultaneous_exports_become_separate_versions(trained_models, tmp_path, monkeypatch):
    """A second export begins and ends during the first, and a third takes the next number, in one second."""
    monkeypatch.setattr(saved_model_writer.time, "time", lambda: 1700000000.5)
    second, rename = [], os.rename

    def rename_late(source, target):
        monkeypatch.setattr(os, "rename", rename)
        os.mkdir(target)
        (tmp_path / "1700000001" / "theirs").write_text("")
        rename(source, target)

    def export_another(_, info):
        second.append(saved_model_writer.write(trained_models[0], None, str(tmp_path)))
        monkeypatch.setattr(os, "rename", rename_late)
        return info

    paths = [saved_model_writer.write(trained_models[0], None, str(tmp_path), export_another), *second]
    assert paths == [str(tmp_path / "1700000002"), str(tmp_path / "1700000000")]
    assert sorted(os.listdir(tmp_path)) == ["1700000000", "1700000001", "1700000002"]
    assert os.listdir(tmp_path / "1700000001") == ["theirs"]
    for path in paths:
        recogniser.load(path, "waveform")


@pytest.mark.long
def test_a_full_disk_leaves_only_older_versions(tiny_export, trained_models, tmp_path):
    """A limit on file sizes simulates a full disk: TensorFlow fails in the middle of writing."""
    shutil.copytree(tiny_export.version_dir, tmp_path / "1700000000")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, hard))
    try:
        with pytest.raises((tf.errors.OpError, OSError)):
            saved_model_writer.write(trained_models[0], None, str(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(tmp_path) == ["1700000000"]
    assert recogniser.find_version(str(tmp_path)) == str(tmp_path / "1700000000")


@pytest.mark.long
def test_a_failed_export_leaves_no_files(trained_models, tmp_path):
    def fail(*_):
        raise OSError("disk is full")

    with pytest.raises(OSError, match="disk is full"):
        saved_model_writer.write(trained_models[0], None, str(tmp_path), fail)
    assert os.listdir(tmp_path) == []
