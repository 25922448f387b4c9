"""A damaged export is refused with an error message before TensorFlow reads it."""

import hashlib
import json
import os
import pathlib
import shutil

import pytest

from estimator_asr import evaluate
from estimator_asr.exporting.saved_model import export_info, recogniser
from tfrecord_builder import errors

GRAPH = "saved_model.pb"
INDEX = "variables/variables.index"
WEIGHTS = "variables/variables.data-00000-of-00001"
TOKENS = "assets/tokens.txt"
CHARACTERS = "assets/characters.txt"
INFO = "assets.extra/export.json"
ADVICE = "copy the export again, or export the model again"
MISMATCH = "is damaged: its contents do not match the sha256 recorded in it"


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip_a_bit(path):
    contents = bytearray(path.read_bytes())
    contents[len(contents) // 2] ^= 1
    path.write_bytes(contents)


def become_directory(path):
    path.unlink()
    path.mkdir()


def drop_last_line(path):
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")


def swap_lines(path):
    path.write_text("".join(reversed(path.read_text("utf-8").splitlines(keepends=True))), "utf-8")


DAMAGES = {
    "missing": pathlib.Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": truncate,
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 9),
    "flipped": flip_a_bit,
    "directory": become_directory,
    "line_lost": drop_last_line,
    "lines_swapped": swap_lines,
}


@pytest.fixture
def version(tiny_export, tmp_path):
    return pathlib.Path(shutil.copytree(tiny_export.version_dir, tmp_path / "export" / "7"))


def load(version):
    return recogniser.load(recogniser.find_version(str(version.parent)), "waveform")


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "garbage", "flipped", "directory"])
@pytest.mark.parametrize("name", [GRAPH, INDEX, WEIGHTS, TOKENS, CHARACTERS, INFO])
def test_a_damaged_file_is_named(version, name, damage):
    DAMAGES[damage](version / name)
    problem = r"(is damaged: (it has \d+ bytes, sha256 \w+ instead of|its contents)|cannot be read \()"
    with pytest.raises(errors.UserError, match=f"^{version / name} {problem}.*; {ADVICE}$"):
        load(version)


@pytest.mark.parametrize("damage", ["line_lost", "lines_swapped"])
def test_a_vocabulary_with_other_lines_is_refused(version, damage):
    DAMAGES[damage](version / TOKENS)
    with pytest.raises(errors.UserError, match=r"tokens\.txt is damaged: "):
        load(version)


def test_weights_and_graph_of_another_export_are_refused(tiny_export, version):
    for name in (INDEX, WEIGHTS):
        other = f"{tiny_export.acoustic_dir}/model.ckpt-7.{name.partition('.')[2]}"
        shutil.copy(other, version / name)
    message = r"variables\.\S+ is damaged: it has \d+ bytes, .* instead of \d+"
    with pytest.raises(errors.UserError, match=message):
        load(version)


def test_a_file_that_may_not_be_read_is_named(version, monkeypatch):
    def deny(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(export_info.files, "sha256", deny)  # file permissions do not stop root
    message = r"cannot be read \(Permission denied\); copy the export again"
    with pytest.raises(errors.UserError, match=message):
        load(version)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda info: info["frontend"].update(sample_rate=8000), MISMATCH),
        (lambda info: info.pop("sha256"), MISMATCH),
        (lambda info: info["files"].popitem(), MISMATCH),
        (lambda info: info.update(token_type=None), "ExportInfo.token_type is None, expected text"),
        (lambda info: info.pop("frontend"), "ExportInfo: key frontend is missing"),
        (lambda info: info.update(language=[]), r"ExportInfo.language is \[\], expected an object"),
    ],
)
def test_a_changed_export_json_is_refused(version, change, message):
    info = json.loads((version / INFO).read_text("utf-8"))
    change(info)
    (version / INFO).write_text(json.dumps(info), "utf-8")
    with pytest.raises(errors.UserError, match=rf"export\.json:? {message}.*; copy the export again"):
        load(version)


def test_an_export_of_release_0_1_0_opens_without_a_warning(version):
    """Its export.json has fewer fields, and parity.json is a separate file."""
    assert "lacks 3 of the 5 tokens" in export_info.load(str(version)).describe_unread("EXPORT/7")
    info = json.loads((version / INFO).read_text("utf-8"))
    for name in ("unread", "parity", "formats", "sha256"):
        del info[name]
    (version / "assets.extra" / "parity.json").write_text("{}")
    sha256 = hashlib.sha256(b"{}").hexdigest()
    info["files"]["assets.extra/parity.json"] = {"num_bytes": 2, "sha256": sha256}
    info["sha256"] = hashlib.sha256(json.dumps(info, sort_keys=True).encode()).hexdigest()
    (version / INFO).write_text(json.dumps(info), "utf-8")
    assert load(version)
    assert export_info.load(str(version)).describe_unread("EXPORT/7") == ""


@pytest.mark.parametrize("text", ["[]", "7", '"text"', "null"])
def test_an_export_json_that_is_not_an_object_is_refused(version, text):
    (version / INFO).write_text(text, "utf-8")
    with pytest.raises(errors.UserError, match=r"export\.json: ExportInfo is .*, expected an object; copy"):
        load(version)


def test_an_export_json_of_deeply_nested_lists_is_refused(version):
    (version / INFO).write_text("[" * 100_000, "utf-8")
    with pytest.raises(errors.UserError, match=rf"export\.json cannot be read \(.*; {ADVICE}$"):
        load(version)


def test_a_missing_export_json_is_named_once(version):
    (version / INFO).unlink()
    with pytest.raises(errors.UserError) as refused:
        load(version)
    problem = f"cannot be read (No such file or directory); {ADVICE}"
    assert str(refused.value) == f"{version / INFO} {problem}"


def test_every_file_but_export_json_is_listed(version):
    names = {path.relative_to(version).as_posix() for path in version.rglob("*") if path.is_file()}
    assert set(export_info.load(str(version)).files) == names - {INFO}
    assert {GRAPH, INDEX, WEIGHTS, TOKENS, CHARACTERS} <= names


@pytest.mark.long
def test_a_signature_that_does_not_exist(version):
    message = r"/7: the SavedModel cannot be loaded \(KeyError\); copy the export again, or export the model"
    with pytest.raises(errors.UserError, match=message):
        recogniser.load(str(version), "text")


def test_evaluate_refuses_a_damaged_export(tiny_export, version, tmp_path):
    truncate(version / TOKENS)
    message = r"tokens\.txt is damaged: it has 15 bytes, sha256 \w{12} instead of 30 bytes, sha256"
    config = evaluate.EvaluateConfig(
        saved_model=str(version), data_dir=(tiny_export.data_dir,), output_dir=str(tmp_path / "report")
    )
    with pytest.raises(errors.UserError, match=message):
        evaluate.evaluate(config)
