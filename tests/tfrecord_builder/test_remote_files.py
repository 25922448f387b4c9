"""s3:// with a local server: one for all tests, because TensorFlow I/O connects once per process."""

import dataclasses
import http.server
import logging
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import paths
import pytest
import small_corpora
import small_records
import tensorflow as tf

from estimator_asr import config as config_lib
from estimator_asr import experiment, model_directory, task_spec, training_config
from estimator_asr.inputs import input_fn, splits
from tfrecord_builder import audio, dataset_info, errors, files, frontend, remote_files
from tfrecord_builder.building import build_config, builder, output_directory, shard_writer, worker_pool
from tfrecord_builder.records import items

boto3 = pytest.importorskip("boto3")  # CPython 3.9 has neither, see requirements-dev.txt
moto_server = pytest.importorskip("moto.server")

ROOT = paths.ROOT
BUCKET = "s3://bucket"
_PART = 5 << 20  # bytes; S3 takes no smaller parts
_CREDENTIALS = {"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "us", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.fixture(scope="module", autouse=True)
def store():
    """A client of a new server with an empty bucket, which s3:// connects to."""
    server = moto_server.ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**_CREDENTIALS, "S3_ENDPOINT": url}.items():
            patch.setenv(name, value)
        patch.setenv("S3_MULTI_PART_UPLOAD_CHUNK_SIZE", str(_PART))
        client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        yield client
    server.stop()


@pytest.fixture
def put(store):
    """A function (key, bytes) that stores an object and returns its path."""

    def put_bytes(key, content=b"x"):
        store.put_object(Bucket="bucket", Key=key, Body=content)
        return f"{BUCKET}/{key}"

    return put_bytes


@pytest.fixture
def requests(caplog):
    """A function that returns method and key of each request since its last call."""
    caplog.set_level("INFO", "werkzeug")

    def take():
        lines = [record.getMessage() for record in caplog.records if record.name == "werkzeug"]
        caplog.clear()
        words = [line.replace("\x1b[0m", "").split('"')[1].split(" ") for line in lines]
        return [f"{method[-6:].split('m')[-1]} {path}" for method, path, *_ in words]

    return take


def _upload(store, directory, prefix):
    for parent, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(parent, name)
            store.upload_file(path, "bucket", f"{prefix}/{os.path.relpath(path, directory)}")
    return f"{BUCKET}/{prefix}"


def _write(path, content=b"content"):
    with files.writing(path) as temporary:
        pathlib.Path(temporary).write_bytes(content)


def _read(path):
    with files.open_binary(path) as file:
        return file.read()


def _keys(store, prefix):
    found = store.list_objects_v2(Bucket="bucket", Prefix=f"{prefix}/").get("Contents", [])
    return [each["Key"].removeprefix(f"{prefix}/") for each in found]


def test_a_file_from_writing_to_removing(store):
    path = f"{BUCKET}/life/one/two.txt"
    assert not files.exists(path) and not files.is_directory(f"{BUCKET}/life")
    _write(path)
    assert files.exists(path) and not files.is_directory(path)
    assert files.exists(f"{BUCKET}/life") and files.is_directory(f"{BUCKET}/life/one/")
    size, time_ns = files.size_and_time(path)
    assert size == 7 and time_ns > 1e18
    _write(path, b"other")
    with files.open_binary(path) as file:
        assert file.seek(1) == 1 and file.read() == b"ther"
    files.remove(path)
    assert _keys(store, "life") == []


def test_a_file_that_fails_is_not_written(store):
    with pytest.raises(KeyError), files.writing(f"{BUCKET}/failed/a") as temporary:
        pathlib.Path(temporary).write_bytes(b"half")
        raise KeyError
    assert _keys(store, "failed") == []


def test_an_empty_file(store):
    _write(f"{BUCKET}/empty/a", b"")
    files.move(f"{BUCKET}/empty/a", f"{BUCKET}/empty/b")
    assert _keys(store, "empty") == ["b"]
    assert _read(f"{BUCKET}/empty/b") == b"" and files.size_and_time(f"{BUCKET}/empty/b")[0] == 0


def test_lists_names(put):
    put("list/b.txt"), put("list/a/1"), put("list/a/2"), put("list/c/")
    assert files.list_names(f"{BUCKET}/list") == files.list_names(f"{BUCKET}/list/") == ["a", "b.txt", "c"]
    assert "list" in files.list_names(BUCKET)


def test_a_directory_listing_of_several_pages(store, put):
    for i in range(110):
        put(f"many/{i:03d}")
    assert files.list_names(f"{BUCKET}/many") == [f"{i:03d}" for i in range(110)]
    files.remove_tree(f"{BUCKET}/many")
    assert _keys(store, "many") == []


def test_finds_files_as_on_a_disk(tmp_path, put):
    names = ("b/2.WAV", "b/1.wav", "a.b/3.flac", "a.b/c/4.wav", "a.b/5.txt", "0.wav")
    for name in names:
        put(f"find/{name}")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    here = [os.path.relpath(path, tmp_path) for path in files.find_files(str(tmp_path), (".wav", ".flac"))]
    there = list(files.find_files(f"{BUCKET}/find", (".wav", ".flac")))
    assert there == [f"{BUCKET}/find/{name}" for name in here]
    assert here == ["0.wav", "a.b/3.flac", "a.b/c/4.wav", "b/1.wav", "b/2.WAV"]


def test_moving_a_file_keeps_files_with_longer_names(store, put):
    put("move/a.tfrecord", b"new"), put("move/a.tfrecord.json"), put("moved/a.tfrecord", b"old")
    files.move(f"{BUCKET}/move/a.tfrecord", f"{BUCKET}/moved/a.tfrecord")
    assert (_keys(store, "move"), _keys(store, "moved")) == (["a.tfrecord.json"], ["a.tfrecord"])
    assert _read(f"{BUCKET}/moved/a.tfrecord") == b"new"


def test_a_large_file_is_uploaded_in_parts_and_a_short_copy_is_an_error(store, tmp_path):
    content = np.random.default_rng(1).bytes(4 * _PART + 1)
    _write(f"{BUCKET}/large/a", content[:-2])
    files.move(f"{BUCKET}/large/a", f"{BUCKET}/large/b")
    assert _read(f"{BUCKET}/large/b") == content[:-2]
    _write(f"{BUCKET}/large/a", content)
    with pytest.raises(OSError, match="the store copied 20971520 of 20971521 bytes"):
        files.move(f"{BUCKET}/large/a", f"{BUCKET}/large/b")
    assert _read(f"{BUCKET}/large/a") == content


def test_names_with_dots_and_slashes(put):
    put("dots/data/a", b"here")
    assert _read(f"{BUCKET}/dots/train/../data/./a") == b"here"
    assert files.exists(f"{BUCKET}/dots//data/") and files.exists(BUCKET) and files.is_directory(BUCKET)
    files.make_directory(f"{BUCKET}/dots/nothing")
    assert not files.exists(f"{BUCKET}/dots/nothing")


def test_missing_files(put):
    put("there/a")
    for path in (f"{BUCKET}/none", f"{BUCKET}/there", f"{BUCKET}/there/a/b"):
        with pytest.raises(FileNotFoundError, match="No such file or directory: '"):
            files.open_binary(path)
    for function in (files.list_names, files.size_and_time, files.remove_tree):
        with pytest.raises(FileNotFoundError):
            function(f"{BUCKET}/none")


@pytest.mark.parametrize("function", [files.exists, files.is_directory, files.list_names, files.open_binary])
def test_a_missing_bucket_is_an_error(function):
    with pytest.raises(OSError, match="there is no such bucket or server: 's3://nobody/'") as caught:
        function("s3://nobody/a")
    assert not isinstance(caught.value, FileNotFoundError)  # which means that a corpus lacks a file
    with pytest.raises(OSError, match="there is no such bucket"):
        _write("s3://nobody/a")
    with pytest.raises(OSError, match="there is no such bucket"):
        files.make_directory("s3://nobody/a")


def test_an_unknown_scheme():
    with pytest.raises(OSError, match="the store cannot be used .*scheme 'ftp' not implemented"):
        files.exists("ftp://host/a")


@pytest.mark.parametrize("num_bytes", [0, 512 << 10, 1 << 20])
def test_a_read_up_to_the_end_of_a_file(put, num_bytes):
    content = bytes(num_bytes)
    assert _read(put("end", content)) == content


def test_timeouts_of_s3_are_bounded_unless_the_user_sets_them(monkeypatch):
    remote_files._gfile()
    assert os.environ["AWS_MAX_ATTEMPTS"] == "3" and os.environ["S3_CONNECT_TIMEOUT_MSEC"] == "5000"
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")
    monkeypatch.setenv("S3_DISABLE_MULTI_PART_DOWNLOAD", "1")
    remote_files._gfile.__wrapped__()
    assert os.environ["AWS_MAX_ATTEMPTS"] == "7"
    assert "S3_DISABLE_MULTI_PART_DOWNLOAD" not in os.environ  # see the test before


def test_reading_audio_takes_two_requests(tmp_path, store, requests):
    path = small_corpora.write_audio(tmp_path / "a.wav", small_corpora.tone(0.5))
    store.upload_file(path, "bucket", "audio/a.wav")
    requests()
    remote = audio.read_audio(f"{BUCKET}/audio/a.wav", 16000)
    assert requests() == ["HEAD /bucket/audio/a.wav", "GET /bucket/audio/a.wav"]
    np.testing.assert_array_equal(remote, audio.read_audio(path, 16000))


@pytest.mark.parametrize(
    "name, content, reason",
    [("none", None, audio.MISSING), ("empty", b"", audio.EMPTY), ("text", b"text" * 99, audio.UNREADABLE)],
)
def test_audio_that_cannot_be_used(put, name, content, reason):
    path = f"{BUCKET}/bad/{name}" if content is None else put(f"bad/{name}", content)
    with pytest.raises(audio.AudioError) as caught:
        audio.read_audio(path, 16000)
    assert caught.value.reason == reason


def test_a_failed_store_is_not_damaged_audio():
    with pytest.raises(OSError, match="no such bucket") as caught:
        audio.read_audio("s3://nobody/a.wav", 16000)
    assert not isinstance(caught.value, errors.UserError)
    assert items.file_signature(f"{BUCKET}/none.wav") is None
    with pytest.raises(OSError, match="no such bucket"):
        items.file_signature("s3://nobody/a.wav")


def test_a_failed_store_is_not_reported_as_the_output_directory(tmp_path):
    with pytest.raises(OSError, match="no such bucket .*'s3://nobody/'"):
        with output_directory.reserve(str(tmp_path / "out"), overwrite=False):
            files.exists("s3://nobody/a.wav")


@pytest.fixture(scope="module")
def corpora(store, tmp_path_factory):
    """The directory of a corpus, local and in the store; two recordings are unusable."""
    here = small_corpora.make_manifest_corpus(tmp_path_factory.mktemp("corpora") / "in", 10, 3)
    os.remove(os.path.join(here, "audio", "u02.wav"))
    small_corpora.write_text(os.path.join(here, "audio", "u04.wav"), "")
    return here, _upload(store, here, "corpus")


@pytest.fixture
def written(monkeypatch):
    """Builds without other processes; the names of the shards that are written."""
    names = []

    def work_here(waiting, settings, directory, num_workers, note):
        for each in waiting:
            names.append(each.file)
            yield shard_writer.write_shard(each, settings, directory, lambda done, rejected: None)

    monkeypatch.setattr(worker_pool, "_run_workers", work_here)
    return names


def _build(corpus, output_dir, **options):
    usual = dict(num_shards=2, max_rejected=0.5)
    config = build_config.BuildConfig(corpus_dir=(corpus,), output_dir=output_dir, **{**usual, **options})
    return builder.build(config, frontend.FrontendConfig())


def _without_places(info):
    """Returns the info without the hashes of files that have paths of recordings."""
    splits = {
        name: dataclasses.replace(
            split,
            shards=tuple(dataclasses.replace(shard, items_sha256="") for shard in split.shards),
        )
        for name, split in info.splits.items()
    }
    return dataclasses.replace(info, splits=splits, report_sha256="", rejected_sha256="")


def test_a_build_in_a_store_has_the_bytes_of_one_on_a_disk(corpora, store, tmp_path, written):
    here, there = corpora
    info = _build(here, str(tmp_path / "out"))
    assert info.num_rejected == 2
    stored = _build(there, f"{BUCKET}/data")
    assert stored == dataset_info.DatasetInfo.load(f"{BUCKET}/data")
    assert _without_places(stored) == _without_places(info)
    assert _keys(store, "data") == sorted(os.listdir(tmp_path / "out"))
    for name in _keys(store, "data"):
        content = (tmp_path / "out" / name).read_bytes()
        if name.endswith(
            (".jsonl", ".html", "info.json", "rejected.tsv")
        ):  # which tell the recordings' places
            assert _read(f"{BUCKET}/data/{name}").count(b"\n") == content.count(b"\n")
        else:
            assert _read(f"{BUCKET}/data/{name}") == content, name


def test_a_member_of_an_archive_in_a_store(put):
    put("speech.ark", b"u1 0123456789")
    assert files.exists(f"{BUCKET}/speech.ark:3+4")
    assert files.size_and_time(f"{BUCKET}/speech.ark:3+4")[0] == 13
    with files.open_binary(f"{BUCKET}/speech.ark:3+4") as file:
        assert file.read() == b"0123"
    with pytest.raises(FileNotFoundError):
        files.open_binary(f"{BUCKET}/none.ark:3+4")


def test_an_interrupted_build_continues_with_the_same_settings_alone(corpora, store, written, monkeypatch):
    _, there = corpora
    original = shard_writer.write_shard

    def interrupted(waiting, *arguments):
        if len(written) > 1:
            raise KeyboardInterrupt
        return original(waiting, *arguments)

    monkeypatch.setattr(shard_writer, "write_shard", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _build(there, f"{BUCKET}/again")
    assert not files.exists(f"{BUCKET}/again/dataset_info.json")
    monkeypatch.setattr(shard_writer, "write_shard", original)
    with pytest.raises(errors.UserError, match="the interrupted build there had another corpus or other"):
        _build(there, f"{BUCKET}/again", fbank_dtype="float32")
    written.clear()
    _build(there, f"{BUCKET}/again")
    assert written == ["dev-00001-of-00002.tfrecord", *(f"train-0000{i}-of-00002.tfrecord" for i in range(2))]
    with pytest.raises(errors.UserError, match="holds a finished build; pass --overwrite"):
        _build(there, f"{BUCKET}/again")
    _build(there, f"{BUCKET}/again", num_shards=1, overwrite=True)
    kinds = ("jsonl", "tfrecord")
    shards = [f"{split}-00000-of-00001.{kind}" for split in ("dev", "train") for kind in kinds]
    sidecar_files = ["characters.txt", "readings.tsv", "rejected.tsv", "report.html", "tokens.txt"]
    assert _keys(store, "again") == sorted([*shards, *sidecar_files, "dataset_info.json"])


def test_an_output_directory_with_other_files_is_refused(corpora, put):
    put("other/thesis.txt")
    with pytest.raises(errors.UserError, match="s3://bucket/other holds thesis.txt and no build"):
        _build(corpora[1], f"{BUCKET}/other")


def test_the_trainer_reads_batches_from_a_store(corpora, store, tmp_path, written):
    directories = [str(tmp_path / "out")]
    _build(corpora[0], directories[0])
    directories.append(_upload(store, directories[0], "batches"))
    batches = []
    for directory in directories:
        info = dataset_info.DatasetInfo.load(directory)
        settings = config_lib.InputConfig(batch_frames=500)
        source = splits.read_split([info], [directory], "train", task_spec.ACOUSTIC)
        build = input_fn.build_input_fn(source, settings, training=False)
        batches.append(next(build().as_numpy_iterator()))
    tf.nest.map_structure(np.testing.assert_array_equal, *batches)
    assert len(batches[0][0]["utterance_id"]) == 8


def test_a_model_directory_takes_its_vocabularies_from_a_store(store, tmp_path):
    info = small_records.make_data(str(tmp_path / "data"))
    made = experiment.ExperimentConfig.for_data(info, train=training_config.TrainConfig(model="language"))
    directory = _upload(store, tmp_path / "data", "vocabularies")
    opened = model_directory.create_or_check(str(tmp_path / "model"), made, directory)
    assert opened.characters.tokens == small_records.CHARACTERS.tokens


def test_a_missing_or_truncated_shard_in_a_store(corpora, store, put, tmp_path, written):
    _build(corpora[0], str(tmp_path / "out"), num_shards=1)
    directory = _upload(store, tmp_path / "out", "cut")
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
    return subprocess.Popen(command, cwd=ROOT, env=environment, **pipes)


class _Refusing(http.server.BaseHTTPRequestHandler):
    """As a store answers whose keys are wrong."""

    def do_GET(self):
        self.send_response(403)
        self.end_headers()

    do_HEAD = do_PUT = do_GET

    def log_message(self, *_):
        pass


@pytest.mark.slow
def test_the_program(corpora, store):
    here, there = corpora
    refusing = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Refusing)
    threading.Thread(target=refusing.serve_forever, daemon=True).start()
    wrong_keys = {"S3_ENDPOINT": f"http://127.0.0.1:{refusing.server_port}"}
    nobody = {"S3_ENDPOINT": "http://127.0.0.1:9"}
    output = f"--output_dir={BUCKET}/program"
    programs = {
        "whole": _start(f"--corpus_dir={there}", output, "--num_workers=1"),
        "wrong keys": _start(f"--corpus_dir={there}", output, **wrong_keys),
        "nobody answers": _start(f"--corpus_dir={there}", "--output_dir=none", **nobody),
        "no such bucket": _start(f"--corpus_dir={here}", "--output_dir=s3://nobody/data"),
    }
    message = {name: program.communicate(timeout=100) for name, program in programs.items()}
    refusing.shutdown()
    codes = {name: program.returncode for name, program in programs.items()}
    assert codes == {"whole": 0, "wrong keys": 1, "nobody answers": 1, "no such bucket": 1}, message
    assert "pure virtual" not in message["whole"][1]
    assert "train: 8 utterances" in message["whole"][0] and "dataset_info.json" in _keys(store, "program")
    expected = {
        "wrong keys": "error: s3://bucket/: access is refused (",
        "nobody answers": "the store cannot be used (curlCode: 7, Couldn't connect to server)",
        "no such bucket": "error: s3://nobody/: there is no such bucket or server; ",
    }
    for name, words in expected.items():
        (line,) = message[name][1].splitlines()
        assert line.startswith("error: ") and words in line
