"""Data for the punctuation model, and written text in data with recordings."""

import dataclasses
import json
import pathlib
import shutil

import built_data
import pytest
import small_corpora
import tensorflow as tf

from tfrecord_builder import show, verify
from tfrecord_builder.data import dataset_info, marks, vocabulary


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return built_data.make_punctuated(tmp_path_factory.mktemp("punctuated"))


def test_records_have_characters_and_marks_but_no_tokens(data_dir):
    records = built_data.parse(data_dir, "dev", with_marks=True)
    (first,) = [record for record in records if record["utterance_id"] == b"paragraphs-dev-1"]
    assert first["transcript"].decode() == "两只是的第三次我很高"
    assert first["num_tokens"] == 0 and first["pronunciation"] == b""
    assert first["num_marks"] == first["num_characters"] == 10
    joined = marks.join(first["transcript"].decode(), first["mark_ids"].tolist())
    assert joined == "两只，是的。第三次，我很高"
    assert first["written"].decode() == "2只，是的。第3次，我很高"
    characters = vocabulary.Vocabulary.load(f"{data_dir}/characters.txt")
    decoded = "".join(characters.decode(first["character_ids"]))
    assert decoded == "<unk><unk>是的第三次我很高"  # 两 and 只 are not in train


def test_the_description_counts_marks_and_characters(data_dir):
    info = dataset_info.DatasetInfo.load(data_dir)
    dev = info.splits["dev"]
    assert (dev.num_utterances, dev.num_tokens, dev.num_characters, dev.num_marks) == (1, 0, 10, 3)
    assert dev.token_lengths == {10: 1}
    assert info.has_marks and info.frontend is None


def test_verify_and_show_know_such_data(data_dir, capsys):
    assert verify.verify(data_dir, 5, 1)
    show.show(show.ShowConfig(data_dir=data_dir, utterance_id="paragraphs-dev-1"))
    shown = capsys.readouterr().out
    assert "marks          两只，是的。第三次，我很高\n" in shown
    assert "written        2只，是的。第3次，我很高\n" in shown


@pytest.mark.parametrize(
    "mark_ids, problem",
    [([0] * 9 + [8], "mark_ids contains 8, expected 0 to 7"), ([0], "number of marks is 1, expected 10")],
)
def test_wrong_marks_are_found(data_dir, tmp_path, capsys, mark_ids, problem):
    copy = shutil.copytree(data_dir, tmp_path / "copy")
    (name,) = (path.name for path in copy.glob("dev-*.tfrecord"))
    (example,) = map(tf.train.Example.FromString, built_data.read(copy / name))
    example.features.feature["mark_ids"].int64_list.value[:] = mark_ids
    built_data.rewrite(str(copy), name, [example.SerializeToString(deterministic=True)])
    assert not verify.verify(str(copy), 0, 1)
    assert problem in capsys.readouterr().out


@pytest.mark.long
def test_the_number_of_workers_changes_nothing(data_dir, tmp_path):
    other = built_data.make_punctuated(tmp_path, num_workers=2)
    for path in pathlib.Path(data_dir).glob("*"):
        assert path.read_bytes() == pathlib.Path(other, path.name).read_bytes(), path.name


def test_a_model_directory_without_tokens_lends_its_characters(tmp_path):
    small_corpora.write_text(tmp_path / "model" / "config.json", '{"token_type": "syllable"}')
    vocabulary.Vocabulary.build(["次我"]).save(str(tmp_path / "model" / "characters.txt"))
    small_corpora.write_text(tmp_path / "corpus" / "dev.txt", "我次，是。\n")
    flags = dict(corpus="punctuated", vocabulary_dir=str(tmp_path / "model"))
    info = built_data.build(tmp_path / "corpus", tmp_path / "out", **flags)
    assert info.splits["dev"].unknown_characters == 1
    tokens = vocabulary.Vocabulary.load(str(tmp_path / "out" / "tokens.txt"))
    assert tokens.tokens == ("<unk>",)


def test_a_recording_keeps_its_written_text_only_if_it_has_marks(tmp_path):
    small_corpora.write_audio(tmp_path / "in" / "a.wav", small_corpora.tone(1.0))
    lines = ["id\taudio\ttext", "u1\ta.wav\t你好，2个。", "u2\ta.wav\t你好 2.5"]
    small_corpora.write_text(tmp_path / "in" / "manifest.tsv", "\n".join(lines))
    built_data.build(tmp_path / "in", tmp_path / "out")
    records = built_data.parse(tmp_path / "out", "train", with_marks=True)
    written = {record["utterance_id"]: record["written"].decode() for record in records}
    assert written == {b"u1": "你好，2个。", b"u2": ""}
    assert verify.verify(str(tmp_path / "out"), 2, 1)
    items = "".join(path.read_text("utf-8") for path in (tmp_path / "out").glob("*.jsonl"))
    assert "mark_ids" not in items


def test_a_description_from_before_marks_is_read(data_dir, tmp_path):
    info = json.loads(pathlib.Path(data_dir, "dataset_info.json").read_text("utf-8"))
    for split in info["splits"].values():
        del split["num_marks"]
    small_corpora.write_text(tmp_path / "dataset_info.json", json.dumps(info))
    old = dataset_info.DatasetInfo.load(str(tmp_path))
    assert not old.has_marks
    assert dataclasses.replace(old.splits["dev"], num_marks=3).num_marks == 3
