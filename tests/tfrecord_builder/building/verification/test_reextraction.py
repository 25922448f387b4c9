import os
import pathlib
import shutil

import built_data
import numpy as np
import pytest
import small_corpora
import soundfile

from tfrecord_builder.building.verification import data_directory, reextraction, stored_records
from tfrecord_builder.data import dataset_info, vocabulary

SHARD = "train-00001-of-00003.tfrecord"


@pytest.fixture
def data_dir(built, data_dir, tmp_path):
    """A copy of the data directory whose .jsonl files name a copy of the recordings."""
    corpus_dir = pathlib.Path(built).parent / "corpus"
    shutil.copytree(corpus_dir, tmp_path / "corpus")  # including modification times
    for path in data_dir.glob("*.jsonl"):
        path.write_text(path.read_text("utf-8").replace(str(corpus_dir), str(tmp_path / "corpus")), "utf-8")
    return data_dir


def _check(data_dir, num_samples=15, seed=1, done=None):
    info = dataset_info.DatasetInfo.load(str(data_dir))
    saved = data_directory.load_vocabularies(str(data_dir), info)
    made = reextraction.Reextraction(str(data_dir), info, saved, (done if done is not None else []).append)
    return [str(each).removeprefix(f"{data_dir}/") for each in made.problems(num_samples, seed)]


def _first(data_dir):
    name = stored_records.utterance_id(built_data.read(data_dir / SHARD)[0])
    return name, data_dir.parent / "corpus" / "audio" / f"{name}.wav"


def test_a_fresh_build_gives_the_same_records(data_dir):
    done = []
    assert _check(data_dir, done=done) == []
    assert done == [1] * 15
    assert _check(data_dir, 4, done=done) == [] and len(done) == 19
    assert _check(data_dir, 1000, done=done) == [] and len(done) == 34


def test_text_records_are_compared(tmp_path):
    data_dir = pathlib.Path(built_data.make_text(tmp_path))
    done = []
    assert _check(data_dir, done=done) == [] and len(done) == 4
    path = next(data_dir.glob("*.jsonl"))
    path.write_text(path.read_text("utf-8").replace('"tokens": ["', '"tokens": ["x'), "utf-8")
    (text,) = _check(data_dir)
    assert "its line in the .jsonl file now produces a different record: pronunciation is " in text


def test_the_seed_selects_the_records(data_dir):
    name, audio = _first(data_dir)
    os.remove(audio)
    drawn = [bool(_check(data_dir, 5, seed)) for seed in range(20)]
    assert drawn == [bool(_check(data_dir, 5, seed)) for seed in range(20)]
    assert 2 <= sum(drawn) <= 12  # about a third is expected


def test_missing_audio(data_dir):
    name, audio = _first(data_dir)
    os.remove(audio)
    expected = f"{SHARD}: record 0 at byte 0 (utterance {name}): audio {audio} is missing"
    assert _check(data_dir) == [expected]


def test_audio_of_another_size(data_dir):
    name, audio = _first(data_dir)
    small_corpora.write_audio(audio, small_corpora.tone(0.6))
    (text,) = _check(data_dir)
    assert text.endswith(f"audio {audio} has changed since the build: duration_ms is 500, expected 600")


def test_audio_with_another_time_and_content(data_dir):
    name, audio = _first(data_dir)
    samples, rate = soundfile.read(audio)
    soundfile.write(audio, samples[::-1], rate)
    os.utime(audio, (1, 1))
    (text,) = _check(data_dir)
    assert f"audio {audio} has changed since the build: bin " in text


def test_a_copy_of_the_audio_is_accepted(data_dir):
    _, audio = _first(data_dir)
    os.utime(audio, (1, 1))
    assert _check(data_dir) == []


def test_audio_that_cannot_be_used_any_more(data_dir):
    _, audio = _first(data_dir)
    stat = audio.stat()
    soundfile.write(audio, np.zeros(8000), 16000)
    os.utime(audio, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (text,) = _check(data_dir)
    assert text.endswith(f"audio {audio} can no longer be used (silent audio)")


def test_a_record_that_does_not_match_its_audio(data_dir):
    _, audio = _first(data_dir)
    fbank = np.zeros([48, 80], np.float16)
    built_data.change_record(data_dir, SHARD, 0, fbank=fbank)
    (text,) = _check(data_dir)
    assert f"its audio {audio} now produces a different record: bin " in text
    built_data.change_record(data_dir, SHARD, 0, fbank=fbank[:47])
    (text,) = _check(data_dir)
    assert text.endswith("now produces a different record: feature shape is [47, 80], expected [48, 80]")


@pytest.mark.parametrize(
    "name, value",
    [
        ("speaker", "z"),
        ("transcript", "x"),
        ("pronunciation", "x"),
        ("token_ids", [0]),
        ("character_ids", [0]),
        ("duration_ms", 499),
    ],
)
def test_a_record_with_other_labels(data_dir, name, value):
    built_data.change_record(data_dir, SHARD, 0, **{name: value})
    (text,) = _check(data_dir)
    assert f"now produces a different record: {name} is {value!r}, expected " in text


def test_one_step_of_float16_is_tolerated(data_dir):
    example = built_data.read(data_dir / SHARD)[0]
    info = dataset_info.DatasetInfo.load(str(data_dir))
    saved = data_directory.load_vocabularies(str(data_dir), info)
    expected = stored_records.RecordSpec(saved.tokens, saved.characters, info.frontend, "float16")
    fbank = stored_records.read_record(example, expected).fbank
    for steps, is_same in ((1, True), (3, False)):
        moved = (fbank.view(np.int16) + np.int16(steps)).view(np.float16)
        assert (reextraction._feature_difference(moved, fbank) == "") == is_same


def test_records_that_cannot_be_read(data_dir):
    records = built_data.read(data_dir / SHARD)
    built_data.rewrite(str(data_dir), SHARD, [b"\xff\xff", *records[1:]])
    assert _check(data_dir) == [f"{SHARD}: record 0 at byte 0: not a tf.train.Example"]


def test_a_missing_jsonl_does_not_stop_the_other_shards(data_dir):
    os.remove(data_dir / SHARD.replace("tfrecord", "jsonl"))
    done = []
    assert _check(data_dir, done=done) == [
        f"{SHARD[:-9]}.jsonl: file cannot be read (No such file or directory), so its shard was not sampled"
    ]
    assert len(done) == 11


def test_a_shard_that_cannot_be_read(data_dir):
    os.remove(data_dir / SHARD)
    os.mkdir(data_dir / SHARD)
    (text,) = _check(data_dir)
    assert text.startswith(f"{SHARD}: file cannot be read (Is a directory), so its shard was not sampled")


def test_an_utterance_that_is_missing_in_the_jsonl(data_dir):
    path = data_dir / SHARD.replace("tfrecord", "jsonl")
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text(lines[1], "utf-8")
    name, _ = _first(data_dir)
    texts = _check(data_dir)
    assert f"(utterance {name}): utterance is missing from the shard's .jsonl file, or that file" in texts[0]


@pytest.mark.parametrize("line", ["{", "[]", "{}", '{"utterance": {"id": "x"}, "labels": {}}', "\xff"])
def test_a_line_that_is_not_an_item(data_dir, line):
    path = data_dir / SHARD.replace("tfrecord", "jsonl")
    path.write_text(line + "\n", "latin-1")
    (text,) = _check(data_dir)
    assert text.startswith(f"{path.name}: line 1 is not a valid item (") and str(path) not in text
    assert "; copy or build the data again." in text


def test_a_changed_vocabulary_is_not_used(data_dir):
    info = dataset_info.DatasetInfo.load(str(data_dir))
    vocabulary.Vocabulary(["<unk>", "x"]).save(str(data_dir / "tokens.txt"))
    assert data_directory.load_vocabularies(str(data_dir), info) is None
