import dataclasses
import errno
import json
import os
import pathlib
import pickle

import built_data
import pytest
import small_corpora
import small_shards

from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import augmentation_config, copies
from tfrecord_builder.building import builder, catalog, chunks, listing, sharding
from tfrecord_builder.building.engines import tasks
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import labelling
from tfrecord_builder.storage import files


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(listing, "_LIST_SIZE", 3)


@pytest.fixture
def listed(tmp_path):
    """Lists of seven half-second utterances, u00 to u06; the last one is in dev."""
    small_corpora.make_manifest_corpus(tmp_path / "in", num_train=6, num_dev=1)
    return _list(tmp_path)


def _list(tmp_path):
    (tmp_path / "labels").mkdir(exist_ok=True)
    (tmp_path / "labels" / "catalog.sqlite").unlink(missing_ok=True)
    with catalog.open_new(str(tmp_path / "labels")) as opened:
        listing.list_corpus("manifest", [str(tmp_path / "in")], opened)
        return list(opened.lists())


def _settings(augmentation=builder.PLAIN, **label_options):
    labeller = labelling.Labeller(labelling.LabelConfig(**label_options))
    return labeller, augmentation, copies.Sources()


def _label(listed, tmp_path, settings=None, run=small_shards.run_here):
    return chunks.label_corpus(listed, *(settings or _settings()), str(tmp_path / "labels"), run)


def _note_labelled(monkeypatch):
    """Returns a list that will collect the ids of labelled utterances."""
    labelled, label = [], labelling.Labeller.__call__

    def note(self, utterance):
        labelled.append(utterance.utterance_id)
        return label(self, utterance)

    monkeypatch.setattr(labelling.Labeller, "__call__", note)
    return labelled


def test_chunks_of_a_corpus(listed, tmp_path):
    found = _label(listed, tmp_path)
    assert [each.file for each in found] == ["00000.labelled", "00001.labelled", "00002.labelled"]
    assert [each.split_sizes for each in found] == [{"train": 3}, {"train": 3}, {"dev": 1}]
    assert found[0].counts["tokens"]["tian1"] == 2 and found[2].counts["training_tokens"] == []
    lines = (tmp_path / "labels" / "00000.labelled").read_bytes().splitlines()
    names = {line.split(b"\t")[3] for line in lines}
    assert lines == sorted(lines) and names == {b"u00", b"u01", b"u02"}


def test_number_of_chunks_is_limited(listed, tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "_MAX_CHUNKS", 2)
    assert [each.num_records for each in _label(listed, tmp_path)] == [6, 1]


def test_an_interrupted_build_keeps_labelled_chunks(listed, tmp_path, monkeypatch):
    expected = _label(listed, tmp_path)
    labelled = _note_labelled(monkeypatch)
    again = _label(listed, tmp_path)
    assert labelled == []
    assert [each.counts for each in again] == [each.counts for each in expected]
    os.remove(tmp_path / "labels" / "00002.labelled.json")
    (tmp_path / "labels" / "00000.labelled.json").write_text('{"file": "0000')
    _label(listed, tmp_path)
    assert labelled == ["u00", "u01", "u02", "u06"]


def test_a_changed_recording_relabels_only_its_chunk(listed, tmp_path, monkeypatch):
    _label(listed, tmp_path)
    labelled = _note_labelled(monkeypatch)
    path = small_corpora.write_audio(tmp_path / "in" / "audio" / "u04.wav", small_corpora.tone(0.7))
    _label(listed, tmp_path)
    assert labelled == ["u03", "u04", "u05"]
    lines = (tmp_path / "labels" / "00001.labelled").read_bytes().splitlines()
    found = [json.loads(line.split(b"\t")[4]) for line in lines]
    (stamp,) = [each["stamp"] for each in found if each["utterance"]["utterance_id"] == "u04"]
    assert tuple(stamp) == sharding.file_signature(path)


@pytest.fixture
def _versions_again():
    """Clears the cached versions after a test that changes them."""
    yield
    tasks.list_versions.cache_clear()


@pytest.mark.usefixtures("_versions_again")
def test_chunks_are_relabelled_if_flags_dictionaries_libraries_or_texts_change(listed, tmp_path, monkeypatch):
    dictionary = tmp_path / "names.tsv"
    dictionary.write_text("北京\tbei3 jing4\n", "utf-8")
    _label(listed, tmp_path, _settings(user_dictionary=str(dictionary)))
    labelled = _note_labelled(monkeypatch)
    slower = augmentation_config.AugmentationConfig(speed_perturb_factors=(0.9,))
    dictionary.write_text("北京\tbei3 jing3\n", "utf-8")

    def relabel(settings):
        labelled.clear()
        tasks.list_versions.cache_clear()
        _label(listed, tmp_path, settings)
        assert len(labelled) == 7

    for settings in (_settings(user_dictionary=str(dictionary)), _settings(), _settings(slower)):
        relabel(settings)
    monkeypatch.setattr(tasks, "_LIBRARIES", ("pypinyin",))
    relabel(_settings(slower))
    read_bytes, changed = pathlib.Path.read_bytes, "/augmentation/copies.py"
    monkeypatch.setattr(
        pathlib.Path, "read_bytes", lambda path: read_bytes(path) + b"#" * str(path).endswith(changed)
    )
    relabel(_settings(slower))
    labelled.clear()
    with open(tmp_path / "in" / "manifest.tsv", "a", encoding="utf-8") as file:
        file.write("new\taudio/u00.wav\t\t好\t\ttrain\n")
    _label(_list(tmp_path), tmp_path, _settings(slower))
    assert labelled == ["u06", "new"]


def test_utterances_moved_to_dev_are_labelled_again(listed, tmp_path, monkeypatch):
    _label(listed, tmp_path)
    labelled = _note_labelled(monkeypatch)
    listed[1] = dataclasses.replace(listed[1], splits="010")
    found = _label(listed, tmp_path)
    assert labelled == ["u03", "u04", "u05"]
    assert [each.split_sizes for each in found] == [{"train": 3}, {"train": 2, "dev": 1}, {"dev": 1}]
    lines = (tmp_path / "labels" / "00001.labelled").read_bytes().splitlines()
    splits = {line.split(b"\t")[3]: line.split(b"\t")[1] for line in lines}
    assert splits == {b"u03": b"train", b"u04": b"dev", b"u05": b"train"}


def test_chunks_of_another_run_are_reused_only_if_their_recordings_are_unchanged(listed, tmp_path):
    (first, *_), writer = _label(listed, tmp_path, run=lambda waiting, writer, title: (waiting, writer))
    assert writer.find_finished(first) is None
    done = writer.write(first, lambda *_: None)
    assert writer.find_finished(first) == done
    assert dataclasses.replace(writer, run="another").find_finished(first) is None


def test_workers_do_not_read_the_dictionary_of_the_user(listed, tmp_path):
    dictionary = tmp_path / "names.tsv"
    dictionary.write_text("北京\tbei3 jing4\n", "utf-8")
    settings = _settings(user_dictionary=str(dictionary))
    os.remove(dictionary)
    found = _label(listed, tmp_path, pickle.loads(pickle.dumps(settings)))
    assert found[1].counts["tokens"]["jing4"] == 1


@pytest.mark.parametrize("num_workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_labels_do_not_depend_on_the_number_of_chunks_or_workers(tmp_path, monkeypatch, num_workers):
    corpus = small_corpora.make_manifest_corpus(tmp_path / "in", num_train=9, num_dev=2)
    path = tmp_path / "in" / "manifest.tsv"
    rows = [("u20", "u00", "", "train"), ("u21", "u99", "你好", "dev"), ("u22", "u01", "，", "train")]
    more = [f"{name}\taudio/{audio}.wav\ta\t{text}\t\t{split}\n" for name, audio, text, split in rows]
    path.write_text(path.read_text("utf-8") + "".join(more), "utf-8")
    flags, contents = dict(speed_perturb_factors=(0.9, 1.0), max_rejected=0.5, num_shards=3), {}
    for size, workers in ((100, 1), (3, num_workers)):
        monkeypatch.setattr(listing, "_LIST_SIZE", size)
        output_dir = tmp_path / str(size)
        assert built_data.build(corpus, output_dir, num_workers=workers, **flags).num_rejected == 3
        contents[size] = built_data.contents(output_dir)
    assert contents[100] == contents[3]
    rejected = contents[3]["rejected.tsv"].decode().splitlines()[1:]
    assert [line.split("\t")[:3] for line in rejected] == [
        ["u20", "train", "no transcript"],
        ["u22", "train", "no transcript"],
        ["u21", "dev", "no such audio file"],
    ]


@pytest.mark.parametrize(
    ("audio", "labels", "unknown", "problem", "reason"),
    [
        ("a.wav", ("花儿", ("huar1",), ()), [], "", ""),
        (None, ("花儿", ("huar1",), ()), [], "", "hanzi and pinyin do not match one to one"),
        (None, ("", (), ()), [], "", "no transcript"),
        (None, ("好", ("hao9",), ("好",)), ["hao9", "x"], "", "pinyin has an unknown syllable: hao9"),
        ("a.wav", ("好", ("hao3",), ()), [], "segment is empty", "segment is empty"),
    ],
)
def test_problems_of_labels(audio, labels, unknown, problem, reason):
    utterance = manifest.Utterance("u", audio, "", "", "", "train", problem=problem)
    assert chunks.find_problem(utterance, labelling.Labels(*labels), unknown) == reason


_Variant = copies.Variant


@pytest.mark.parametrize(
    ("split", "changes", "variants"),
    [
        ("train", {}, [None, _Variant(0.8)]),
        ("dev", {}, [None]),
        ("train", {"speed": 1.25, "volume_db": -3}, [_Variant(1.25, volume_db=-3), _Variant(volume_db=-3)]),
        ("dev", {"speed": 1.25}, [_Variant(1.25)]),
        ("train", {"speed": 1.25}, [_Variant(1.25), None]),
    ],
)
def test_speed_and_volume_of_the_corpus_are_combined_with_the_augmentation(split, changes, variants):
    utterance = manifest.Utterance("u1", "/c/u1.wav", "", "好", "", split, **changes)
    config = augmentation_config.AugmentationConfig(speed_perturb_factors=(1.0, 0.8))
    found = chunks.list_copies(utterance, config, copies.Sources())
    names = ("u1", "u1~speed0.8")
    assert [(each.utterance_id, variant) for each, variant in found] == list(zip(names, variants))


def test_a_failing_disk_is_not_a_missing_recording(monkeypatch):
    def fail(path):
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(files, "size_and_time", fail)
    with pytest.raises(errors.UserError, match=r"/c/a.wav cannot be read \(Stale file handle\)"):
        chunks.find_signatures(["/c/a.wav"])
