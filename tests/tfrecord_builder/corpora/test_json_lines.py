import gzip

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import json_lines


def _read(path):
    return list(json_lines.read_objects(str(path)))


def test_objects_with_their_lines(tmp_path):
    content = '\ufeff{"text": "你好"}\r\n\r\n{"text": 1}\n'
    plain = small_corpora.write_text(tmp_path / "a.jsonl", content)
    packed = corpus_trees.write_gzip(tmp_path / "a.jsonl.gz", content)
    assert _read(plain) == [(f"{plain}: line 1", {"text": "你好"}), (f"{plain}: line 3", {"text": 1})]
    assert _read(packed) == [(f"{packed}: line 1", {"text": "你好"}), (f"{packed}: line 3", {"text": 1})]


def test_a_list_of_objects(tmp_path):
    content = '\n[\n  {"text": "你好"},\n  {\n    "text": 1}\n]\n'
    plain = small_corpora.write_text(tmp_path / "a.json", content)
    packed = corpus_trees.write_gzip(tmp_path / "a.json.gz", content)
    for path in (plain, packed):
        assert _read(path) == [(f"{path}: object 1", {"text": "你好"}), (f"{path}: object 2", {"text": 1})]
    assert _read(small_corpora.write_text(tmp_path / "empty.json", "[]\n")) == []
    assert _read(small_corpora.write_text(tmp_path / "nothing.json", "\n")) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"a": 1}, 2]', "object 2: 2 is not a JSON object; write the file again"),
        ('[{"a": 1}\n', r".* is not a valid JSON list of objects; write"),
        ("[" * 100000, r".* is not a valid JSON list of objects"),
        ('[]\n{"a": 1}\n', r".* is not a valid JSON list of objects"),
    ],
)
def test_invalid_lists_are_refused(tmp_path, content, message):
    with pytest.raises(errors.UserError, match=f"a.json: {message}"):
        _read(small_corpora.write_text(tmp_path / "a.json", content))


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ('{}\n[{"a": 1}]\n', r"'\[\{\"a\": 1\}\]' is not a valid JSON object"),
        ("{\n", "is not a valid JSON object; write the file again"),
        ('{"a": ' + "9" * 5000 + "}", "is not a valid JSON object"),
    ],
)
def test_lines_that_are_not_objects_are_refused(tmp_path, content, shown):
    with pytest.raises(errors.UserError, match=f"a.json: line [12]: .*{shown}"):
        _read(small_corpora.write_text(tmp_path / "a.json", content))


def test_damaged_gzip_files_are_refused(tmp_path):
    whole = gzip.compress(b"{}\n" * 1000)
    for content in (b"{}\n", whole[:-9], whole[:20] + b"\xff" * 9 + whole[29:], gzip.compress(b"\xc4\xe3\n")):
        (tmp_path / "a.jsonl.gz").write_bytes(content)
        message = r"a.jsonl.gz is not valid gzip-compressed UTF-8 text \(.*\); "
        with pytest.raises(errors.UserError, match=message):
            _read(tmp_path / "a.jsonl.gz")


def test_text():
    fields = {"a": "你好", "null": None, "number": 12, "empty": ""}
    values = [json_lines.get_text("w", fields, name, "x") for name in (*fields, "none")]
    assert values == ["你好", "x", "12", "", "x"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "missing"),
        (["a.wav", "b.wav"], r"\['a.wav', 'b.wav'\]"),
        (["录音.wav"], r"\['录音.wav'\]"),
        (True, "True"),
        (1.5, "1.5"),
        ("a\0b", r"'a\\x00b'"),
        ("\ud800", r"'\\ud800'"),
    ],
)
def test_fields_that_are_not_text_are_refused(value, shown):
    with pytest.raises(errors.UserError, match=f"^w: a is {shown}, expected text; fix the line.$"):
        json_lines.get_text("w", {"a": value}, "a")
