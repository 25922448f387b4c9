"""s3_store, tested with a local server."""

import contextlib
import errno
import pathlib
import tempfile

import numpy as np
import pytest
import s3_server
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.building import sharding
from tfrecord_builder.storage import files

BUCKET = s3_server.BUCKET
pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture
def requests(caplog):
    """Returns a function that returns the method and key of each request since its last call."""
    return s3_server.watch_requests(caplog)


def _write(path, content=b"content"):
    with files.writing(path) as temporary:
        pathlib.Path(temporary).write_bytes(content)


def _read(path):
    with files.open_binary(path) as file:
        return file.read()


@contextlib.contextmanager
def _before_get(store, change):
    """Calls `change` with the headers of each GET request for an object."""

    def call(request, **_):
        change(request.headers)

    store.meta.events.register("before-send.s3.GetObject", call)
    yield
    store.meta.events.unregister("before-send.s3.GetObject", call)


def test_names_are_listed(put):
    put("list/b.txt"), put("list/a/1"), put("list/a/2"), put("list/c/")
    assert files.list_names(f"{BUCKET}/list") == files.list_names(f"{BUCKET}/list/") == ["a", "b.txt", "c"]
    assert "list" in files.list_names(BUCKET)


@pytest.mark.long
def test_a_listing_of_several_pages_is_complete(store, put):
    for i in range(110):
        put(f"many/{i:03d}")
    assert files.list_names(f"{BUCKET}/many") == [f"{i:03d}" for i in range(110)]
    files.remove_tree(f"{BUCKET}/many")
    assert s3_server.list_keys(store, "many") == []


def test_a_listing_omits_keys_that_no_path_can_name(put):
    for key in ("odd//b.wav", "odd/./c.wav", "odd/../d.wav", "odd/folder/", "odd/folder.wav/", "odd/e.wav"):
        put(key)
    assert list(files.find_files(f"{BUCKET}/odd", (".wav",))) == [f"{BUCKET}/odd/e.wav"]
    assert files.list_names(f"{BUCKET}/odd") == ["e.wav", "folder", "folder.wav"]


def test_finding_files_takes_one_request_for_all_directories(put, requests):
    for i in range(20):
        put(f"folders/{i}/a.wav")
    requests()
    assert len(list(files.find_files(f"{BUCKET}/folders", (".wav",)))) == 20
    (request,) = requests()
    assert request.startswith("GET /bucket?list-type=2&prefix=folders/&")


def test_moving_a_file_keeps_files_with_longer_names(store, put):
    put("move/a.tfrecord", b"new"), put("move/a.tfrecord.json"), put("moved/a.tfrecord", b"old")
    files.move(f"{BUCKET}/move/a.tfrecord", f"{BUCKET}/moved/a.tfrecord")
    assert s3_server.list_keys(store, "move") == ["a.tfrecord.json"]
    assert s3_server.list_keys(store, "moved") == ["a.tfrecord"]
    assert _read(f"{BUCKET}/moved/a.tfrecord") == b"new"


def test_a_large_file_is_uploaded_and_moved_in_parts(store, requests):
    content = np.random.default_rng(1).bytes((17 << 20) + 1)
    _write(f"{BUCKET}/large/a", content)
    assert sum("partNumber=" in request for request in requests()) == 3
    files.move(f"{BUCKET}/large/a", f"{BUCKET}/large/b")
    assert s3_server.list_keys(store, "large") == ["b"]
    assert _read(f"{BUCKET}/large/b") == content


def test_dots_and_slashes_in_paths_are_normalised(put):
    put("dots/data/a", b"here")
    assert _read(f"{BUCKET}/dots/train/../data/./a") == b"here"
    assert files.exists(f"{BUCKET}/dots//data/") and files.exists(BUCKET) and files.is_directory(BUCKET)
    files.make_directory(f"{BUCKET}/dots/nothing")
    assert not files.exists(f"{BUCKET}/dots/nothing")


def test_missing_files_are_not_found_errors(put):
    put("there/a")
    for path in (f"{BUCKET}/none", f"{BUCKET}/there", f"{BUCKET}/there/a/b"):
        with pytest.raises(FileNotFoundError, match="No such file or directory: '"):
            files.open_binary(path)


def test_the_temporary_copy_of_a_missing_file_is_closed(monkeypatch):
    copies, make = [], tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda: copies.append(make()) or copies[-1])
    with pytest.raises(FileNotFoundError):
        files.open_binary(f"{BUCKET}/none")
    assert [copy.closed for copy in copies] == [True]


@pytest.mark.parametrize("function", [files.exists, files.is_directory, files.list_names, files.open_binary])
def test_a_missing_bucket_is_an_error(function):
    with pytest.raises(OSError, match="there is no such bucket or server: 's3://nobody/'") as caught:
        function("s3://nobody/a")
    assert not isinstance(caught.value, FileNotFoundError)  # would mean that a corpus lacks a file
    with pytest.raises(OSError, match="there is no such bucket"):
        _write("s3://nobody/a")
    with pytest.raises(OSError, match="there is no such bucket"):
        files.make_directory("s3://nobody/a")


def test_a_member_is_read_with_a_range_request(store, put):
    path = put("archive.ark", bytes(1 << 20) + b"0123456789")
    ranges = []
    with _before_get(store, lambda headers: ranges.append(headers["Range"])):
        assert _read(f"{path}:{1 << 20}+4") == b"0123"
    assert ranges[-1] == b"bytes=1048576-1048579"


def test_a_member_with_its_length_in_its_own_header_is_read(tmp_path, store):
    wav = small_corpora.write_audio(tmp_path / "a.wav", small_corpora.tone(0.1))
    content = pathlib.Path(wav).read_bytes()
    (tmp_path / "a.ark").write_bytes(b"u1 " + content + b"u2 " + content)
    store.upload_file(str(tmp_path / "a.ark"), "bucket", "wav.ark")
    assert _read(f"{BUCKET}/wav.ark:3") == content


def test_a_member_beyond_the_end_of_its_archive_is_an_error(put):
    path = put("short.ark", b"0123456789")
    assert _read(f"{path}:8+4") == b"89"
    with pytest.raises(OSError, match="the archive ends before the member begins: 's3://bucket/short.ark'"):
        files.open_binary(f"{path}:17")


def test_a_server_that_ignores_ranges_is_an_error(store, put):
    path = put("whole", b"0123456789")
    message = "the object store cannot read part of an object: 's3://bucket/whole'"
    with _before_get(store, lambda headers: headers.pop("Range")):
        with pytest.raises(OSError, match=message) as caught:
            files.open_binary(f"{path}:4+3")
    assert caught.value.errno == errno.EIO


def test_a_bucket_cannot_be_opened_as_a_file():
    for path in (BUCKET, f"{BUCKET}/"):
        with pytest.raises(IsADirectoryError, match="Is a directory: 's3://bucket"):
            files.open_binary(path)


def test_reading_audio_takes_at_most_two_requests(tmp_path, store, requests):
    path = small_corpora.write_audio(tmp_path / "a.wav", small_corpora.tone(0.5))
    store.upload_file(path, "bucket", "audio/a.wav")
    requests()
    remote = audio_files.read_audio(f"{BUCKET}/audio/a.wav", 16000)
    made = requests()
    assert set(made) <= {"HEAD /bucket/audio/a.wav", "GET /bucket/audio/a.wav"} and len(made) <= 2
    np.testing.assert_array_equal(remote, audio_files.read_audio(path, 16000))


def test_unusable_audio_has_a_reason(put):
    for path, reason in ((f"{BUCKET}/none", audio_files.MISSING), (put("bad", b""), audio_files.EMPTY)):
        with pytest.raises(audio_files.AudioError) as caught:
            audio_files.read_audio(path, 16000)
        assert caught.value.reason == reason


def test_a_failed_store_is_not_damaged_audio():
    with pytest.raises(OSError, match="no such bucket") as caught:
        audio_files.read_audio("s3://nobody/a.wav", 16000)
    assert not isinstance(caught.value, errors.UserError)
    assert sharding.file_signature(f"{BUCKET}/none.wav") is None
    with pytest.raises(OSError, match="no such bucket"):
        sharding.file_signature("s3://nobody/a.wav")
