import os

import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import registry, segments
from tfrecord_builder.data import manifest


def _list(corpus_dir, corpus="table"):
    return list(registry.CORPORA[corpus](str(corpus_dir)))


def test_csv_and_tsv(tmp_path):
    found = _list(corpus_trees.make_table_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text, u.pinyin) for u in found] == [
        ("u1", "s1", "train", "今天,好", ""),
        ("u2", "s2", "train", '他说"好"', ""),
        ("dev-2-u3", "s3", "dev", '"你好', "ni3 hao3"),  # a quote in TSV is a character
    ]
    assert found[2].audio == str(tmp_path / "wav" / "u3.wav")


@pytest.mark.parametrize(
    "audio", ["audio", "PATH", "wav_filename", "Audio FilePath", "file_name", "filename", "wav"]
)
@pytest.mark.parametrize("text", ["text", "Transcript", "sentence", "TRANSCRIPTION", "wrd"])
def test_names_of_columns(tmp_path, audio, text):
    content = f"\ufeff{text} , {audio},wav_filesize\r\n好,/in/a.wav,9\r\n\r\n"
    small_corpora.write_text(tmp_path / "test.csv", content)
    (found,) = _list(tmp_path)
    assert (found.utterance_id, found.audio, found.text) == ("test-2-a", "/in/a.wav", "好")


def test_pinyin_alone_and_short_lines(tmp_path):
    content = 'utterance_id,audio,pinyin,speaker\nu1,s3://in/a.wav,"ni3 hao3"\nu2,b.wav,hao3,s\n'
    small_corpora.write_text(tmp_path / "train.csv", content)
    assert [(u.utterance_id, u.audio, u.pinyin, u.speaker) for u in _list(tmp_path)] == [
        ("u1", "s3://in/a.wav", "ni3 hao3", ""),
        ("u2", str(tmp_path / "b.wav"), "hao3", "s"),
    ]


def test_a_column_split_takes_precedence_over_the_file_name(tmp_path):
    small_corpora.write_text(tmp_path / "train.tsv", "id\taudio\ttext\tsplit\na\ta\t好\tdev\nb\tb\t好\t\n")
    assert [(u.utterance_id, u.split) for u in _list(tmp_path)] == [("a", "dev"), ("b", "train")]


def test_segments_and_channels(tmp_path):
    content = "id,audio,text,Start,End,duration,channel,seconds\n"
    content += "a,a.wav,好,0.5,2.0,,1,9\nb,a.wav,好,2,,1.5,,9\nc,a.wav,好,,,1.5,B,9\nd,a.wav,好,,,,,9\n"
    content += "e,a.wav,好,2,1,,,\n"
    small_corpora.write_text(tmp_path / "train.csv", content)
    found = _list(tmp_path)
    parts = [(u.start_seconds, u.seconds, u.channel) for u in found[:4]]
    assert parts == [(0.5, 1.5, 1), (2.0, 1.5, None), (0.0, 1.5, 1), (0.0, None, None)]
    assert [u.problem for u in found] == ["", "", "", "", segments.EMPTY]


def test_speechbrain_with_redundant_columns(tmp_path):
    content = (
        "ID, duration, start, stop, begin_time, end_time, wav, audio_path, spk_id, char, wrd, text\n"
        "s1, 2.87, 0, 16000, 0.0, 2.87, a/b.wav, other.wav, spk1, t h e, the dog, the dog\n"
        "s2, , 0, 16000, , , a/b.wav, a/b.wav, spk1, t h e, the dog, the dog\n"
    )
    small_corpora.write_text(tmp_path / "train.csv", content)
    first, second = _list(tmp_path)
    assert (first.utterance_id, first.speaker, first.text) == ("s1", "spk1", "the dog")
    assert (first.audio, first.start_seconds, first.seconds) == (str(tmp_path / "a" / "b.wav"), 0.0, 2.87)
    assert second.problem == segments.SAMPLES  # the sample rate is unknown


@pytest.mark.parametrize(
    "content",
    [
        'path;sentence\na.wav;"今天,好;天气"\n',  # Excel in countries with decimal commas
        "path\tsentence\na.wav\t今天,好;天气\n",
        "path|sentence\na.wav|今天,好;天气\n",
    ],
)
def test_csv_with_other_separators(tmp_path, content):
    small_corpora.write_text(tmp_path / "train.csv", content)
    (found,) = _list(tmp_path)
    assert (found.audio, found.text) == (str(tmp_path / "a.wav"), "今天,好;天气")


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (("Train.csv", "valid.csv", "test.tsv"), ["train", "dev", "test"]),
        (("train.csv", "train-clean-100.csv", "dev-clean.csv"), ["train", "dev"]),  # train has all parts
        (("librivox-train-clean-100.csv", "librivox-train-clean-360.csv"), ["train", "train"]),
        (("ru.csv",), ["train"]),
        (("metadata.csv",), ["train"]),
        (("train/metadata.csv", "validation/metadata.csv"), ["train", "dev"]),
    ],
)
def test_splits_of_tables(tmp_path, names, splits):
    for name in names:
        content = "audio,text\na.wav,好\n" if name.endswith("csv") else "audio\ttext\na.wav\t好\n"
        small_corpora.write_text(tmp_path / name, content)
    assert [u.split for u in _list(tmp_path)] == splits


def test_a_table_in_place_of_its_directory(tmp_path):
    small_corpora.write_text(tmp_path / "a_train.csv", "audio,text\na.wav,好\n")
    small_corpora.write_text(tmp_path / "b_valid.csv", "audio,text\nb.wav,好\n")
    (found,) = registry.list_utterances("table", [str(tmp_path / "b_valid.csv")])
    assert (found.audio, found.split) == (str(tmp_path / "b.wav"), "dev")
    with pytest.raises(errors.UserError, match="--corpus_dir: .*c.csv does not exist"):
        list(registry.list_utterances("table", [str(tmp_path / "c.csv")]))


def test_metadata_of_hugging_face_in_json_lines(tmp_path):
    lines = '{"file_name": "validation/a.mp3", "transcription": "好", "duration": 1.5, "tags": ["x"]}\n'
    lines += '{"file_name": "b.mp3", "transcription": null, "speaker_id": 7}\n'
    small_corpora.write_text(tmp_path / "metadata.jsonl", lines)
    first, second = _list(tmp_path)
    assert (first.text, first.split, first.seconds) == ("好", "dev", 1.5)
    assert (second.text, second.split, second.speaker) == ("", "train", "7")
    small_corpora.write_text(tmp_path / "metadata.jsonl", '{"file_name": "a.mp3"}\n')
    with pytest.raises(errors.UserError, match="line 1: found file_name, but no text"):
        _list(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "",
            r"train.csv: found no audio \(audio, .*wav_filename, .*\) and no text "
            r"\(text, transcript, .*\) or pinyin \(pinyin, 拼音\); name the columns in the first line",
        ),
        (
            "id:音频:text\n",
            "found id:音频:text, but no audio .* and no text .*; name the columns in the first line, "
            "separated by tabs, commas, semicolons or vertical bars",
        ),
        ("id,text\n", "found id, text, but no audio"),
        ("id,audio\n", "found id, audio, but no text .* or pinyin"),
        ("file,path,text\na,b,好\n", "2: several columns for audio have different values, 'a' and 'b'; use"),
        ("text,text,path\n好,你,a\n", "several columns for text have different values, '好' and '你'"),
        ("audio,text,start,end,duration\na,好,1,2,3\n", "line 2: start 1, end 2 and duration 3 contradict"),
        ("audio,text,begin,offset\na,好,1,2\n", "columns for start have different values, '1' and '2'"),
        ("audio,text,channel\na,好,x\n", "line 2: channel is 'x', expected A, B or a number"),
        ("id,audio,text\nu1,a.wav,今天,天气\n", "train.csv: line 2 has 4 values, expected 3; quote values"),
        ("id,audio,text\n,a.wav,好\n", "train.csv: line 2: id or audio is empty; fill in both"),
        ("audio,text\n ,好\n", "line 2: id or audio is empty"),
        ("id,audio,text,split\nu,a,好,other\n", "line 2: split is 'other', expected one of .*; fix the line"),
        ('audio,text\na,"好\nb,好\n', "line 2 is not valid CSV .*: a quoted value must end on the same"),
        ('audio,text\na,"好"的\n', "train.csv: line 2 is not valid CSV"),
    ],
)
def test_tables_that_are_refused(tmp_path, content, message):
    small_corpora.write_text(tmp_path / "train.csv", content)
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)


def test_other_directories_and_encodings(tmp_path):
    with pytest.raises(errors.UserError, match="found no tables, expected train.csv or train.tsv"):
        _list(tmp_path)
    (tmp_path / "dev.csv").write_bytes("audio,text\na,好\n".encode("gbk"))
    assert [u.text for u in _list(tmp_path)] == ["好"]
    (tmp_path / "dev.csv").write_bytes("audio,text\na,好\n".encode("utf-16"))
    assert [u.text for u in _list(tmp_path)] == ["好"]
    (tmp_path / "dev.csv").write_bytes("audio,text\na,señor Müller\n".encode("latin-1"))
    with pytest.raises(errors.UserError, match="dev.csv: byte 15 is not UTF-8. The file must be UTF-8, UTF"):
        _list(tmp_path)


def test_data_root_of_speechbrain_is_the_directory_of_the_json(tmp_path):
    path = tmp_path / "ASR_train.json"
    small_corpora.write_text(
        path,
        '{\n"s1": {"wav": "{data_root}/a/s1.wav", "path": "{data_root}/a/s1.wav", "duration": "2.87",\n'
        '"spk_id": "k", "wrd": "THE DOG", "words": "THE DOG", "phn": ["dh", "ax"], "fold": 1},\n'
        '"s2": {"uttid": "s2", "wav": "/in/s2.wav", "wrd": "好"}}\n',
    )
    first, second = registry.list_utterances("table", [str(path)])
    assert (first.utterance_id, first.audio, first.text) == ("s1", str(tmp_path / "a/s1.wav"), "THE DOG")
    assert (first.speaker, first.seconds, first.split) == ("k", 2.87, "train")
    assert (second.utterance_id, second.audio, second.text) == ("s2", "/in/s2.wav", "好")


@pytest.mark.parametrize("name", ["u1", "合成"])
def test_an_object_without_audio_is_named(tmp_path, name):
    path = small_corpora.write_text(tmp_path / "train.json", f'{{"{name}": {{"wrd": "好"}}}}')
    with pytest.raises(errors.UserError, match=f": '{name}': found wrd, id, but no audio .*; add the field"):
        _list(path)


@pytest.mark.parametrize("content", ["", "[1]", '{"u1": 3}', '{"a": {}}\n{"b": {}}', "{" * 5000])
def test_invalid_json_of_named_objects_is_refused(tmp_path, content):
    path = small_corpora.write_text(tmp_path / "train.json", content)
    with pytest.raises(errors.UserError, match=r"train.json: .*is not a (valid )?JSON object"):
        _list(path)


HEADER = "id\taudio\tspeaker\ttext\tpinyin\tsplit\tseconds\tnote\n"


def _read_manifest(tmp_path, content):
    small_corpora.write_text(tmp_path / "manifest.tsv", content)
    return _list(tmp_path, "manifest")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("text\tid\taudio\tsplit\n你\tu1\ta/u1.mp3\tdev\n", {"audio": "a/u1.mp3", "split": "dev"}),
        (f"{HEADER}u1\ta.wav\ts\t你\n", {"speaker": "s"}),  # a missing split is train
        (f"{HEADER}u1\ta.wav\ts\t你\t\tvalid\n", {"speaker": "s", "split": "dev"}),
        (f"{HEADER}u1\ta.wav\ts\t你\t\tTrain\n", {"speaker": "s"}),
        (f"{HEADER}u1\ta.wav\ts\t你\t\tValidation\n", {"speaker": "s", "split": "dev"}),
        # A byte order mark, Windows line ends, a quote that is a character, and an empty line.
        (
            f'\ufeff{HEADER.strip()}\r\nu1\ta.wav\ts\t"你\t\tdev\t1.0\t\r\n\r\n',
            {"speaker": "s", "text": '"你', "split": "dev"},
        ),
        ("id\taudio\ttext\nu1\t/x/a.wav\t你\n", {"audio": "/x/a.wav"}),
        ("id\taudio\ttext\nu1\ts3://x/a.wav\t你\n", {"audio": "s3://x/a.wav"}),
        ("id\taudio\ttext\nu1\ttest/a.wav\t你\n", {"audio": "test/a.wav"}),  # the folder's name is ignored
        (
            "id\taudio\ttext\tStart Time\tEND_TIME\nu1\ta.wav\t你\t0.5\t2\n",
            {"start_seconds": 0.5, "seconds": 1.5},
        ),
        (
            "编号,音频,文本,开始时间(秒),时长（秒）,声道\nu1,a.wav,你,0.5,2,1\n",
            {"start_seconds": 0.5, "seconds": 2.0, "channel": 1},
        ),
    ],
)
def test_manifest_columns(tmp_path, content, expected):
    (found,) = _read_manifest(tmp_path, content)
    expected = {"audio": "a.wav", "text": "你", "split": "train", "speaker": "", **expected}
    audio = expected.pop("audio")
    audio = audio if "://" in audio else os.path.join(tmp_path, audio)
    assert found == manifest.Utterance(utterance_id="u1", audio=audio, pinyin="", **expected)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("id\ttext\nu1\t你\n", r"manifest.tsv: found id, text, but no audio \(audio, audio_path"),
        ("", r"found no id \(.*\) and no audio \(.*\) and no text \(.* or pinyin"),
        (
            "id\taudio\ttext\nu1\ta.wav\t你\tmore\n",
            "line 2 has 4 values, expected 3; remove tabs from the values, or name all columns in the",
        ),
        (
            "id\taudio\ttext\nu1,a.wav,你\n",
            r"line 2: id or audio is empty; fill in both \(values are separated by tabs\)",
        ),
        ("编号 音频 文本\n", "manifest.tsv: found 编号 音频 文本, but no id .*, separated by tabs, com"),
        ("编号,音频,文本,划分\nu1,a.wav,你,其他\n", "manifest.tsv: line 2: split is '其他', expected one of"),
        ("编号,音频,文本,时长\nu1,a,你,两秒\n", "line 2: duration is '两秒', expected a number of seconds"),
        ("编号,音频,文本,声道\nu1,a.wav,你,左\n", "line 2: channel is '左', expected A, B or a number"),
    ],
)
def test_manifest_refuses(tmp_path, content, message):
    with pytest.raises(errors.UserError, match=message):
        _read_manifest(tmp_path, content)


# Column names of spreadsheets, and their names for the dev and train splits.
HEADERS = [
    ("编号 音频 文本 拼音 说话人 划分", "验证", "训练"),
    ("编号 文件 内容 拼音 发音人 用途", "验证集", "训练集"),
    ("编号 录音文件名 转录文本 拼音 发音人 用途", "验证集", "训练集"),
    ("序号 路径 转写 拼音 录音人 子集", "开发", ""),
    ("id audio 汉字 pinyin speaker 数据集", "dev", "训练"),
]


@pytest.mark.parametrize(("header", "dev", "train"), HEADERS)
@pytest.mark.parametrize(
    ("separator", "end", "quote", "encoding"),
    [
        ("\t", "", "", "utf-8"),
        (",", "", "", "gb18030"),  # Excel in China
        (";", "", '"', "utf-8-sig"),  # LibreOffice
        ("\t", "", '"', "utf-16"),
        (",", ",,", "", "utf-8-sig"),  # empty columns
        ("|", "", "", "utf-8"),
    ],
)
@pytest.mark.parametrize("folder", ["音频/", "音频\\"])
def test_a_manifest_as_spreadsheets_save_it(
    tmp_path, header, dev, train, separator, end, quote, encoding, folder
):
    values = [
        header.split(),
        ["u1", f"{folder}a.wav", "你好，世界", "ni3 hao3", "张三", dev],
        ["u2", f"{folder}b.wav", "好", "", "", train],
    ]
    lines = (separator.join(f"{quote}{value}{quote}" for value in row) + end for row in values)
    content = "".join(f"{line}\r\n" for line in lines).encode(encoding)
    for name in ("manifest.tsv", "table.csv"):
        (tmp_path / name).write_bytes(content)
    wanted = [
        manifest.Utterance("u1", f"{tmp_path}/音频/a.wav", "张三", "你好，世界", "ni3 hao3", "dev"),
        manifest.Utterance("u2", f"{tmp_path}/音频/b.wav", "", "好", "", "train"),
    ]
    assert _list(tmp_path, "manifest") == _list(tmp_path / "table.csv") == wanted


def test_splits_of_chinese_files_and_folders(tmp_path):
    for name in ("训练.csv", "验证集.csv"):
        small_corpora.write_text(tmp_path / "files" / name, "音频,文本\na.wav,好\n")
    assert [u.split for u in _list(tmp_path / "files")] == ["train", "dev"]
    small_corpora.write_text(tmp_path / "folders" / "测试" / "metadata.csv", "音频,文本\na.wav,好\n")
    assert [u.split for u in _list(tmp_path / "folders")] == ["test"]
    small_corpora.write_text(tmp_path / "table.csv", "音频,文本\n测试\\a.wav,好\n验证/b.wav,好\nc.wav,好\n")
    assert [u.split for u in _list(tmp_path / "table.csv")] == ["test", "dev", "train"]


def test_manifest_is_missing_beside_tables(tmp_path):
    for name in ("清单.csv", "b.TSV", ".hidden.csv", "notes.txt"):
        small_corpora.write_text(tmp_path / name, "")
    message = "manifest.tsv: file does not exist; pass --corpus=table to read b.TSV, 清单.csv."
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path, "manifest")
    for name in ("清单.csv", "b.TSV"):
        os.remove(tmp_path / name)
    with pytest.raises(errors.UserError, match="manifest.tsv: file does not exist; see docs/corpora.md"):
        _list(tmp_path, "manifest")


ROWS = ["a.wav,今天天气很好"] * 12


@pytest.mark.parametrize("separator", [",", ";"])
@pytest.mark.parametrize(("opened", "closed"), [(5, 9), (5, None), (11, None), (0, 1)])
def test_an_open_quote_is_refused_instead_of_hiding_rows(tmp_path, separator, opened, closed):
    """A quote opens in row `opened`, counted from 0, and closes in row `closed` or never."""
    lines = list(ROWS)
    lines[opened] = 'a.wav,"今天天气很好'
    if closed is not None:
        lines[closed] = 'a.wav,今天天气很好"'
    content = "\n".join(["path,text", *lines]).replace(",", separator)
    small_corpora.write_text(tmp_path / "train.csv", f"{content}\n")
    with pytest.raises(errors.UserError, match=f"train.csv: line {opened + 2} is not valid CSV"):
        _list(tmp_path)


def test_a_header_with_an_open_quote(tmp_path):
    small_corpora.write_text(tmp_path / "train.csv", 'path,"text\na.wav,好"\n')
    with pytest.raises(errors.UserError, match="train.csv: line 1 is not valid CSV"):
        _list(tmp_path)


def test_a_quote_in_a_tsv_is_a_character(tmp_path):
    lines = ["path\ttext", *["a.wav\t好"] * 3, 'a.wav\t"好', *["a.wav\t好"] * 3]
    small_corpora.write_text(tmp_path / "train.tsv", "\n".join(lines))
    assert [u.text for u in _list(tmp_path)] == ["好"] * 3 + ['"好'] + ["好"] * 3


def test_an_open_quote_in_a_table_of_text(tmp_path):
    small_corpora.write_text(tmp_path / "train.tsv", 'hanzi,pinyin\n"你好,ni3 hao3\n再见",zai4 jian4\n')
    with pytest.raises(errors.UserError, match="train.tsv: line 2 is not valid CSV"):
        _list(tmp_path, "text")


def test_common_voice_of_2019_has_paths_without_suffix(tmp_path):
    corpus_trees.make_common_voice_corpus(tmp_path)
    content = "client_id\tpath\tsentence\nab\t9f3c0e17\t你好\nab\tx.wav\t好\n"
    small_corpora.write_text(tmp_path / "dev.tsv", content)
    found = [u for u in _list(tmp_path, "common_voice") if u.split == "dev"]
    names = [(u.utterance_id, os.path.basename(u.audio)) for u in found]
    assert names == [("9f3c0e17", "9f3c0e17.mp3"), ("x", "x.wav")]


def test_common_voice_other_columns_byte_order_mark_and_line_ends(tmp_path):
    corpus_trees.make_common_voice_corpus(tmp_path)
    for split in ("train", "test"):
        os.remove(tmp_path / f"{split}.tsv")
    content = "\ufeffclient_id\tpath\tsentence_id\tsentence\r\nab\tx.mp3\t7\tHello, \u201cyou\u201d!\r\n"
    small_corpora.write_text(tmp_path / "dev.tsv", content)
    (found,) = _list(tmp_path, "common_voice")
    assert (found.utterance_id, found.speaker, found.text) == ("x", "ab", "Hello, \u201cyou\u201d!")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("client_id\tpath\na\tb.mp3\n", "found client_id, path, but no text .text, transcript, .*sentence"),
        ("client_id\tpath\tsentence\na\t \t好\n", "line 2: id or audio is empty; fill in both"),
    ],
)
def test_common_voice_invalid_tables_are_refused(tmp_path, content, message):
    corpus_trees.make_common_voice_corpus(tmp_path)
    small_corpora.write_text(tmp_path / "train.tsv", content)
    with pytest.raises(errors.UserError, match=f"train.tsv: {message}"):
        _list(tmp_path, "common_voice")


def test_ljspeech_other_layouts_are_refused(tmp_path):
    message = "found no metadata.csv or wavs, but LJSpeech has metadata.csv and wavs"
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path, "ljspeech")
    (tmp_path / "wavs").mkdir()
    small_corpora.write_text(tmp_path / "metadata.csv", "file_name,transcription\n")
    message = "line 1 has 1 columns, expected 2 or 3 separated by .; .* has a header, use --corpus=table"
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path, "ljspeech")
