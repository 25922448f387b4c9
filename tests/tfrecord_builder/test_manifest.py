import errno
import os

import pytest
import small_corpora

from tfrecord_builder import errors, files, manifest

HEADER = "id\taudio\tspeaker\ttext\tpinyin\tsplit\tseconds\tnote\n"


def _read(tmp_path, content):
    return list(manifest.read_manifest(small_corpora.write_text(tmp_path / "manifest.tsv", content)))


def test_reads_columns_by_name(tmp_path):
    (found,) = _read(tmp_path, "text\tid\taudio\tsplit\n你好\tu1\ta/u1.mp3\tdev\n")
    assert found == manifest.Utterance("u1", str(tmp_path / "a" / "u1.mp3"), "", "你好", "", "dev")


def test_missing_split_is_train_and_short_lines_are_filled(tmp_path):
    assert [u.split for u in _read(tmp_path, HEADER + "u1\ta.wav\ts\t你\n")] == ["train"]


def test_byte_order_mark_crlf_quotes_and_empty_lines(tmp_path):
    (found,) = _read(
        tmp_path, "\ufeff" + HEADER.replace("\n", "\r\n") + 'u1\ta.wav\ts\t"你好\t\tdev\t1.0\t\r\n\r\n'
    )
    assert (found.utterance_id, found.text, found.split) == ("u1", '"你好', "dev")


def test_segments_and_channels(tmp_path):
    found = _read(
        tmp_path,
        "id\taudio\ttext\toffset\tend\tduration\tchannel\tseconds\n"
        "u1\ta.wav\t你\t0.5\t2.0\t\t1\t9\nu2\ta.wav\t好\t2.0\t\t1.5\t\t9\nu3\ta.wav\t好\t\t\t\t\t9\n"
        "u4\ta.wav\t好\t2\t1\n",
    )
    assert [(u.start_seconds, u.seconds, u.channel) for u in found[:3]] == [
        (0.5, 1.5, 1),
        (2.0, 1.5, None),
        (0.0, None, None),  # seconds is how long the file is
    ]
    assert [bool(u.problem) for u in found] == [False, False, False, True]


def test_columns_of_a_part_have_the_names_that_tables_give_them_in_any_case(tmp_path):
    (found,) = _read(tmp_path, "id\taudio\ttext\tStart Time\tEND_TIME\nu1\ta.wav\t你\t0.5\t2\n")
    assert (found.start_seconds, found.seconds) == (0.5, 1.5)


@pytest.mark.parametrize(("name", "split"), [("valid", "dev"), ("Train", "train"), ("Validation", "dev")])
def test_splits_of_other_names(tmp_path, name, split):
    assert [u.split for u in _read(tmp_path, HEADER + f"u1\ta.wav\ts\t你\t\t{name}\n")] == [split]


def test_absolute_audio_path_stays(tmp_path):
    assert _read(tmp_path, "id\taudio\ttext\nu1\t/x/a.wav\t你\n")[0].audio == "/x/a.wav"


def test_a_url_stays(tmp_path):
    assert _read(tmp_path, "id\taudio\ttext\nu1\ts3://x/a.wav\t你\n")[0].audio == "s3://x/a.wav"


def test_write_then_read_is_identity(tmp_path):
    audio = str(tmp_path / "audio" / "u1.wav")
    utterances = [manifest.Utterance("u1", audio, "s", "你 好", "ni3 hao3", "test")]
    path = str(tmp_path / "manifest.tsv")
    manifest.write_manifest(path, utterances)
    assert list(manifest.read_manifest(path)) == utterances
    assert "\taudio" + os.sep + "u1.wav\t" in open(path, encoding="utf-8").read()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id\ttext\nu1\t你\n", "manifest.tsv: its header line has id, text, expected also audio"),
        ("id\taudio\ttext\t\ttext\t\n", "its header line has text twice, expected every column once"),
        ("", "its header line has nothing, expected also id, audio"),
        ("id\taudio\nu1\ta.wav\n", "neither a column text nor pinyin"),
        (HEADER + "u1\ta.wav\ts\t你\t\tother\n", "line 2: split is 'other', expected one of train, .*; dev"),
        (HEADER + "\ta.wav\ts\t你\n", "line 2: id or audio is empty"),
        ("id\taudio\ttext\nu1\ta.wav\t你\tmore\n", "line 2 has 4 columns, expected 3"),
        (
            "id\taudio\ttext\tstart\nu1\ta.wav\t你\tx\n",
            "manifest.tsv: line 2: start is 'x', expected a number",
        ),
        (
            "id\taudio\ttext\tstart\toffset\nu1\ta.wav\t你\t1\t2\n",
            "line 2: several columns for start have '1' and '2', expected one",
        ),
    ],
)
def test_refuses(tmp_path, content, message):
    with pytest.raises(errors.UserError, match=message):
        _read(tmp_path, content)


def test_missing_file_and_other_encoding(tmp_path):
    with pytest.raises(errors.UserError, match="none.tsv: there is no such file"):
        list(manifest.read_manifest(str(tmp_path / "none.tsv")))
    (tmp_path / "latin.tsv").write_bytes("id\taudio\ttext\nu1\ta\té\n".encode("latin-1"))
    message = (
        r"latin.tsv: byte 19 is not UTF-8, expected UTF-8, UTF-16 .*, or GB18030 \(GBK\) .*; save the file"
    )
    with pytest.raises(errors.UserError, match=message):
        list(manifest.read_manifest(str(tmp_path / "latin.tsv")))


def test_a_byte_far_from_the_beginning_is_counted_from_there(tmp_path):
    (tmp_path / "latin.tsv").write_bytes(b"id\taudio\ttext\n" + b"u\ta\tb\n" * 10000 + b"\xe9\n")
    with pytest.raises(errors.UserError, match="latin.tsv: byte 60014 is not UTF-8"):
        list(manifest.read_manifest(str(tmp_path / "latin.tsv")))


@pytest.mark.parametrize("encoding", ["utf-16", "gbk", "gb18030", "utf-8-sig"])
def test_tables_of_spreadsheets(tmp_path, encoding, caplog, monkeypatch):
    monkeypatch.setattr(manifest, "_MOST_NOTES", 1000)
    content = "id\taudio\ttext\r\nu1\ta.wav\t你好\r\nu2\tb.wav\t今天天气很好\r\n"
    (tmp_path / "manifest.tsv").write_bytes(content.encode(encoding))
    found = list(manifest.read_manifest(str(tmp_path / "manifest.tsv")))
    assert [u.text for u in found] == ["你好", "今天天气很好"]
    name = {"gbk": "GB18030", "utf-8-sig": ""}.get(encoding, encoding.upper())
    assert (f"manifest.tsv: read as {name}" in caplog.text) == bool(name)


def test_a_directory_of_that_name_and_a_file_without_permission(tmp_path, monkeypatch):
    (tmp_path / "manifest.tsv").mkdir()
    message = r"manifest.tsv: it cannot be read \(Is a directory\), expected a text file; see BUILD.md"
    with pytest.raises(errors.UserError, match=message):
        list(manifest.read_manifest(str(tmp_path / "manifest.tsv")))

    def deny(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(files, "open", deny, raising=False)
    with pytest.raises(errors.UserError, match=r"a.tsv: it cannot be read \(Permission denied\), expected"):
        list(manifest.read_manifest(str(tmp_path / "a.tsv")))


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("\ufeffa\r\n\nb\n", ["a", "", "b"]),
        ("\n", [""]),
        ("a\u2028b\n", ["a\u2028b"]),
    ],
)
def test_read_lines(tmp_path, content, lines):
    assert list(manifest.read_lines(small_corpora.write_text(tmp_path / "a.txt", content))) == lines
