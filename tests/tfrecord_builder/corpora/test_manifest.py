import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import manifest as manifest_corpus
from tfrecord_builder.data import manifest

HEADER = "id\taudio\tspeaker\ttext\tpinyin\tsplit\tseconds\tnote\n"


def _read(tmp_path, content):
    small_corpora.write_text(tmp_path / "manifest.tsv", content)
    return list(manifest_corpus.list_utterances(str(tmp_path)))


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


def test_columns_of_a_segment_have_aliases_in_any_case(tmp_path):
    (found,) = _read(tmp_path, "id\taudio\ttext\tStart Time\tEND_TIME\nu1\ta.wav\t你\t0.5\t2\n")
    assert (found.start_seconds, found.seconds) == (0.5, 1.5)


@pytest.mark.parametrize(("name", "split"), [("valid", "dev"), ("Train", "train"), ("Validation", "dev")])
def test_splits_of_other_names(tmp_path, name, split):
    assert [u.split for u in _read(tmp_path, HEADER + f"u1\ta.wav\ts\t你\t\t{name}\n")] == [split]


@pytest.mark.parametrize("audio", ["/x/a.wav", "s3://x/a.wav"])
def test_an_absolute_path_and_a_url_stay(tmp_path, audio):
    assert _read(tmp_path, f"id\taudio\ttext\nu1\t{audio}\t你\n")[0].audio == audio


def test_a_folder_named_like_a_split_is_ignored(tmp_path):
    (found,) = _read(tmp_path, "id\taudio\ttext\nu1\ttest/a.wav\t你\n")
    assert found.split == "train"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "id\ttext\nu1\t你\n",
            r"manifest.tsv: columns are id, text, expected also audio \(audio, audio_path",
        ),
        ("", r"columns are missing, expected also id \(.*\) and audio \(.*\) and text \(.* or pinyin"),
        ("id\taudio\nu1\ta.wav\n", "expected also text .* or pinyin .*; name the columns in the first line"),
        (HEADER + "u1\ta.wav\ts\t你\t\tother\n", "line 2: split is 'other', expected one of train, .*; dev"),
        (HEADER + "\ta.wav\ts\t你\n", "line 2: id or audio is empty"),
        ("id\taudio\ttext\nu1\ta.wav\t你\tmore\n", "line 2 has 4 values, expected 3; quote"),
    ],
)
def test_refuses(tmp_path, content, message):
    with pytest.raises(errors.UserError, match=message):
        _read(tmp_path, content)
