"""Builds and data directories in s3://, with a local server."""

import dataclasses
import os
import pickle
import subprocess
import sys

import built_data
import paths
import pytest
import s3_server
import small_corpora
import small_models
import small_records

from estimator_asr.experiment import experiment, training_config
from tfrecord_builder import errors
from tfrecord_builder.building import listing, output_directory, shard_writer
from tfrecord_builder.building.engines import dispatch, local_engine
from tfrecord_builder.data import dataset_info
from tfrecord_builder.storage import files

BUCKET = s3_server.BUCKET
pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture(scope="module")
def corpora(store, tmp_path_factory):
    """Returns the local and the remote directory of a corpus with two unusable recordings."""
    here = small_corpora.make_manifest_corpus(tmp_path_factory.mktemp("corpora") / "in", 10, 3)
    os.remove(os.path.join(here, "audio", "u02.wav"))
    small_corpora.write_text(os.path.join(here, "audio", "u04.wav"), "")
    return here, s3_server.upload(store, here, "corpus")


@pytest.fixture
def written(monkeypatch):
    """Runs units of work in this process; returns the list of the files that they have written."""
    names = []

    def work_here(num_workers, task, units, on_progress):
        for unit in units:
            names.append(pickle.loads(unit).file)
            yield task(unit)

    monkeypatch.setattr(local_engine, "_run", work_here)
    return names


def _build(corpus, output_dir, **flags):
    return built_data.build(corpus, output_dir, **{"num_shards": 2, "max_rejected": 0.5, **flags})


def _without_places(info):
    """Returns the info without the hashes of files that contain paths of recordings."""
    splits = {
        name: dataclasses.replace(
            split, shards=tuple(dataclasses.replace(shard, items_sha256="") for shard in split.shards)
        )
        for name, split in info.splits.items()
    }
    return dataclasses.replace(info, splits=splits, report_sha256="", rejected_sha256="")


@pytest.mark.long
def test_a_build_in_a_store_has_the_bytes_of_one_on_a_disk(corpora, store, tmp_path, written):
    here, there = corpora
    info = _build(here, str(tmp_path / "out"))
    assert info.num_rejected == 2
    stored = _build(there, f"{BUCKET}/data")
    assert stored == dataset_info.DatasetInfo.load(f"{BUCKET}/data")
    assert _without_places(stored) == _without_places(info)
    assert s3_server.list_keys(store, "data") == sorted(os.listdir(tmp_path / "out"))
    for name in s3_server.list_keys(store, "data"):
        content = (tmp_path / "out" / name).read_bytes()
        with files.open_binary(f"{BUCKET}/data/{name}") as file:
            stored_bytes = file.read()
        if name.endswith((".jsonl", ".html", "info.json", "rejected.tsv")):  # contain paths of recordings
            assert stored_bytes.count(b"\n") == content.count(b"\n")
        else:
            assert stored_bytes == content, name


@pytest.fixture
def engine(monkeypatch):
    """Returns the name of an engine that works like a cluster, but in this process."""
    monkeypatch.setitem(dispatch.ENGINES, "ray", local_engine.open_engine)
    return "ray"


@pytest.mark.long
def test_workers_of_an_engine_build_a_corpus_of_a_store_into_a_store(
    corpora, store, written, engine, monkeypatch
):
    expected = _build(corpora[1], f"{BUCKET}/ordinary")
    monkeypatch.setattr(listing, "_LIST_SIZE", 5)
    assert _build(corpora[1], f"{BUCKET}/engine", runner=engine) == expected
    for name in s3_server.list_keys(store, "ordinary"):
        assert files.sha256(f"{BUCKET}/engine/{name}") == files.sha256(f"{BUCKET}/ordinary/{name}"), name
    assert s3_server.list_keys(store, "engine") == s3_server.list_keys(store, "ordinary")


def test_a_failed_store_is_reported_in_the_same_words_with_an_engine(tmp_path, written, engine):
    failed = []
    for options in ({}, {"runner": engine}):
        with pytest.raises(OSError) as caught:
            _build("s3://nobody/corpus", str(tmp_path / "out"), **options)
        failed.append(errors.describe_refusal(caught.value))
    assert failed[0] == failed[1] and "s3://nobody/" in failed[0]


def test_a_store_that_fails_in_a_worker_is_reported_in_the_same_words(tmp_path, written, engine, monkeypatch):
    monkeypatch.setattr(listing, "_LIST_SIZE", 1)  # a single chunk would be labelled in this process
    rows = "".join(f"u{i}\ts3://nobody/{i}.wav\t你好\n" for i in range(2))
    small_corpora.write_text(tmp_path / "in" / "manifest.tsv", f"id\taudio\ttext\n{rows}")
    told = []
    for options in ({}, {"runner": engine}):
        with pytest.raises(errors.UserError, match="there is no such bucket or server") as caught:
            _build(str(tmp_path / "in"), str(tmp_path / "out"), **options)
        told.append(str(caught.value))
    assert told[0] == told[1] and told[0].startswith("s3://nobody/0.wav cannot be read")
    assert written == ["00000.labelled", "00000.labelled"]


@pytest.mark.long
def test_an_interrupted_build_continues_with_the_same_settings_alone(corpora, store, written, monkeypatch):
    _, there = corpora
    original = shard_writer.RecordWriter.make

    def interrupted(writer, *arguments):
        if len(written) > 1:
            raise KeyboardInterrupt
        return original(writer, *arguments)

    monkeypatch.setattr(shard_writer.RecordWriter, "make", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _build(there, f"{BUCKET}/again")
    assert not files.exists(f"{BUCKET}/again/dataset_info.json")
    monkeypatch.setattr(shard_writer.RecordWriter, "make", original)
    with pytest.raises(errors.UserError, match="contains an interrupted build with a different corpus or"):
        _build(there, f"{BUCKET}/again", fbank_dtype="float32")
    written.clear()
    _build(there, f"{BUCKET}/again")
    assert written == ["dev-00001-of-00002.tfrecord", *(f"train-0000{i}-of-00002.tfrecord" for i in range(2))]
    with pytest.raises(errors.UserError, match="contains a finished build; pass --overwrite"):
        _build(there, f"{BUCKET}/again")
    _build(there, f"{BUCKET}/again", num_shards=1, overwrite=True)
    kinds = ("jsonl", "tfrecord")
    shards = [f"{split}-00000-of-00001.{kind}" for split in ("dev", "train") for kind in kinds]
    sidecar_files = ["characters.txt", "readings.tsv", "rejected.tsv", "report.html", "tokens.txt"]
    assert s3_server.list_keys(store, "again") == sorted([*shards, *sidecar_files, "dataset_info.json"])


def test_an_output_directory_with_other_files_is_refused(corpora, put):
    put("other/thesis.txt")
    with pytest.raises(errors.UserError, match="s3://bucket/other contains thesis.txt, but no build"):
        _build(corpora[1], f"{BUCKET}/other")


def test_a_failed_store_is_not_reported_as_the_output_directory(tmp_path):
    with pytest.raises(OSError, match="no such bucket .*'s3://nobody/'"):
        with output_directory.reserve(str(tmp_path / "out"), overwrite=False):
            files.exists("s3://nobody/a.wav")


def test_a_model_directory_takes_its_vocabularies_from_a_store(store, tmp_path):
    info = small_records.make_data(str(tmp_path / "data"))
    made = experiment.ExperimentConfig.for_data(info, train=training_config.TrainConfig(model="language"))
    directory = s3_server.upload(store, tmp_path / "data", "vocabularies")
    opened = small_models.create_or_check(str(tmp_path / "model"), made, directory)
    assert opened.characters.tokens == small_records.CHARACTERS.tokens


def test_a_missing_or_truncated_shard_in_a_store(corpora, store, put, tmp_path, written):
    _build(corpora[0], str(tmp_path / "out"), num_shards=1)
    directory = s3_server.upload(store, tmp_path / "out", "cut")
    info = dataset_info.DatasetInfo.load(directory)
    put("cut/train-00000-of-00001.tfrecord", b"short")
    files.remove(f"{directory}/dev-00000-of-00001.tfrecord")
    with pytest.raises(errors.UserError, match="shard has 5 bytes, expected"):
        info.shard_paths(directory, "train")
    with pytest.raises(errors.UserError, match="shard is missing"):
        info.shard_paths(directory, "dev")
    with pytest.raises(errors.UserError, match="data directory does not exist"):
        dataset_info.DatasetInfo.load(f"{BUCKET}/nothing")


def _start(*flags, **environment):
    command = [sys.executable, "-m", "tfrecord_builder.build", "--max_rejected=0.5", *flags]
    environment = {**os.environ, "AWS_MAX_ATTEMPTS": "1", **environment}
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen(command, cwd=paths.ROOT, env=environment, **pipes)


@pytest.mark.slow
def test_the_build_program_writes_to_a_store(corpora, store):
    here, there = corpora
    output = f"--output_dir={BUCKET}/program"
    with s3_server.answer_all(403) as (refusing, _):
        programs = {
            "whole": _start(f"--corpus_dir={there}", output, "--num_workers=1"),
            "wrong keys": _start(f"--corpus_dir={there}", output, S3_ENDPOINT=refusing),
            "nobody answers": _start(
                f"--corpus_dir={there}", "--output_dir=none", S3_ENDPOINT="http://127.0.0.1:9"
            ),
            "no such bucket": _start(f"--corpus_dir={here}", "--output_dir=s3://nobody/data"),
        }
        message = {name: program.communicate(timeout=100) for name, program in programs.items()}
    codes = {name: program.returncode for name, program in programs.items()}
    assert codes == {"whole": 0, "wrong keys": 1, "nobody answers": 1, "no such bucket": 1}, message
    assert "train: 8 utterances" in message["whole"][0]
    assert "dataset_info.json" in s3_server.list_keys(store, "program")
    expected = {
        "wrong keys": "error: s3://bucket/program: access was denied (",
        "nobody answers": "the storage cannot be used (Could not connect to the endpoint URL: ",
        "no such bucket": "error: s3://nobody/: there is no such bucket or server; ",
    }
    for name, words in expected.items():
        (line,) = message[name][1].splitlines()
        assert line.startswith("error: ") and words in line
