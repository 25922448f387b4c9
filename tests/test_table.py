import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import table


def _list(corpus_dir):
    return list(table.list_utterances(str(corpus_dir)))


def test_csv_and_tsv(tmp_path):
    found = _list(corpus_trees.make_table_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text, u.pinyin) for u in found] == [
        ("u1", "s1", "train", "今天,好", ""),
        ("u2", "s2", "train", '他说"好"', ""),
        ("dev-2-u3", "s3", "dev", '"你好', "ni3 hao3"),  # TSV knows no quoting
    ]
    assert found[2].audio == str(tmp_path / "wav" / "u3.wav")


@pytest.mark.parametrize("audio", ["audio", "path", "wav_filename", "audio_filepath"])
@pytest.mark.parametrize("text", ["text", "transcript", "sentence"])
def test_names_of_columns(tmp_path, audio, text):
    small_corpora.write_text(
        tmp_path / "test.csv", f"\ufeff{text} , {audio},wav_filesize\r\n好,/in/a.wav,9\r\n\r\n"
    )
    (found,) = _list(tmp_path)
    assert (found.utterance_id, found.audio, found.text) == ("test-2-a", "/in/a.wav", "好")


def test_pinyin_alone_short_lines_and_lines_within_quotes(tmp_path):
    content = 'utterance_id,audio,pinyin,speaker\nu1,s3://in/a.wav,"ni3\nhao3"\nu2,b.wav,hao3,s\n'
    small_corpora.write_text(tmp_path / "train.csv", content)
    assert [(u.utterance_id, u.audio, u.pinyin, u.speaker) for u in _list(tmp_path)] == [
        ("u1", "s3://in/a.wav", "ni3\nhao3", ""),
        ("u2", str(tmp_path / "b.wav"), "hao3", "s"),
    ]


def test_a_column_split_goes_before_the_name_of_the_file(tmp_path):
    small_corpora.write_text(tmp_path / "train.tsv", "id\taudio\ttext\tsplit\na\ta\t好\tdev\nb\tb\t好\t\n")
    assert [(u.utterance_id, u.split) for u in _list(tmp_path)] == [("a", "dev"), ("b", "train")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "train.csv: its header line has nothing, expected audio, and text or pinyin; name the columns"),
        ("id;audio;text\n", "its header line has id;audio;text, expected audio"),
        ("id,text\n", "its header line has id, text, expected audio"),
        ("id,audio\n", "its header line has id, audio, expected audio, and text or pinyin"),
        (
            "audio,path,text\n",
            "train.csv: audio and path are both a column for audio, expected one of them; rename",
        ),
        ("text,text,path\n", "text and text are both a column for text"),
        (
            "id,audio,text\nu1,a.wav,今天,天气\n",
            "train.csv: line 2 has 4 columns, expected 3; quote its values",
        ),
        ("id,audio,text\n,a.wav,好\n", "train.csv: line 2: id or audio is empty, expected both"),
        ("audio,text\n ,好\n", "line 2: id or audio is empty"),
        (
            "id,audio,text,split\nu,a,好,valid\n",
            "line 2: split is valid, expected train, dev, test; mend the line",
        ),
        (
            'audio,text\na,"好\nb,好\n',
            "train.csv: line 3 is no CSV .*, expected quotes as Python's csv module",
        ),
        ('audio,text\na,"好"的\n', "train.csv: line 2 is no CSV"),
    ],
)
def test_tables_that_are_refused(tmp_path, content, message):
    small_corpora.write_text(tmp_path / "train.csv", content)
    with pytest.raises(errors.UserError, match=message):
        _list(tmp_path)


def test_other_directories_and_encodings(tmp_path):
    with pytest.raises(errors.UserError, match="it has no table, expected train.csv or train.tsv"):
        _list(tmp_path)
    (tmp_path / "dev.csv").write_bytes("audio,text\na,好\n".encode("gbk"))
    with pytest.raises(errors.UserError, match="dev.csv: byte 13 is not UTF-8"):
        _list(tmp_path)
