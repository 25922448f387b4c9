import fcntl
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import time

import loopback_server
import paths
import pytest
from small_archives import DATA, FILES, SOUND, L, M, X, entry, folder, hard_link, link, pack

from tfrecord_builder import errors
from tfrecord_builder.corpora.downloading import archives, fetch, unpacking


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setattr(fetch, "_PAUSES_SECONDS", (0.01,))
    with loopback_server.serve(FILES) as server:
        yield server


def run(server, corpus, directory, parts=()):
    return unpacking.download(corpus, str(directory), parts, server.address())


def error_of(server, corpus, directory, parts=()):
    with pytest.raises(errors.UserError) as caught:
        run(server, corpus, directory, parts)
    return str(caught.value)


def tree(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


DONE = ["data_x/.data_x.tgz.unpacked", "data_x/t.txt", "data_x/wav/train/S1/a.wav"]


def test_downloads_checks_and_unpacks_once(server, tmp_path):
    directory = tmp_path / "new" / "dir"
    for finished in ([], ["data_x.tgz"]):
        assert run(server, X, directory) == finished
        assert len(server.asked) == 1 and tree(directory) == DONE
    assert (directory / "data_x/wav/train/S1/a.wav").read_bytes() == SOUND


def test_continues_after_a_broken_connection(server, tmp_path):
    server.answer = loopback_server.break_off(70_000)
    assert "stopped at 140,000 of about " in error_of(server, X, tmp_path)
    assert tree(tmp_path) == ["data_x.tgz.incomplete"]
    server.answer = loopback_server.serve_ranges
    run(server, X, tmp_path)
    assert server.asked[-1]["Range"] == "bytes=140000-" and tree(tmp_path) == DONE


def test_a_file_with_a_wrong_checksum_is_renamed(server, tmp_path):
    server.contents["/resources/7/data_x.tgz"] = wrong = DATA[:-1] + b"?"
    sums = f"{hashlib.md5(wrong).hexdigest()}, expected {X.archives[0].md5}"
    assert f"data_x.tgz.wrong: MD5 sum is {sums}; the download was kept" in error_of(server, X, tmp_path)
    assert tree(tmp_path) == ["data_x.tgz.wrong"]
    server.contents["/resources/7/data_x.tgz"] = DATA
    run(server, X, tmp_path)
    assert tree(tmp_path) == ["data_x.tgz.wrong", *DONE]


def test_parts_are_unpacked_into_one_folder(server, tmp_path):
    run(server, L, tmp_path, ["test"])
    assert tree(tmp_path) == ["L/.test.tar.gz.unpacked", "L/README", "L/test/a.wav"]
    assert run(server, L, tmp_path) == ["test.tar.gz"]
    markers = [".dev.tar.gz.unpacked", ".test.tar.gz.unpacked"]
    assert tree(tmp_path / "L") == [*markers, "README", "dev/a.wav", "test/a.wav"]


def test_archives_without_a_folder_get_one(server, tmp_path):
    run(server, M, tmp_path)
    markers = [".a.tgz.unpacked", ".b.tgz.unpacked"]
    assert tree(tmp_path / "m") == [*markers, "ReadMe", "dev/b.wav", "train/a.wav"]


def test_files_of_a_killed_call_are_replaced(server, tmp_path):
    (tmp_path / "data_x.tgz").write_bytes(DATA)  # the call was killed while it moved files into place
    for name in ("data_x/wav/train", "data_x.incomplete/data_x"):
        os.makedirs(tmp_path / name)
    (tmp_path / "data_x.incomplete/junk").touch()
    run(server, X, tmp_path)
    assert tree(tmp_path) == DONE
    (tmp_path / "data_x.tgz").write_bytes(DATA)  # the call was killed before it removed the archive
    run(server, X, tmp_path)
    assert tree(tmp_path) == DONE and server.asked == []


def test_a_corpus_that_was_not_downloaded_is_kept(server, tmp_path):
    os.makedirs(tmp_path / "data_x/wav")
    problem = f"{tmp_path / 'data_x'} exists, but was not created by this program; build from it"
    assert f"--corpus_dir: {problem}" in error_of(server, X, tmp_path)
    assert server.asked == []


def test_a_second_download_is_refused(server, tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    message = error_of(server, X, tmp_path)
    os.close(descriptor)
    assert message == (f"--corpus_dir: {tmp_path} is locked by another download; wait until it ends.")
    run(server, X, tmp_path)


def test_a_full_disk(server, tmp_path):
    os.symlink("/dev/full", tmp_path / "data_x.tgz.incomplete")
    problem = "cannot be written to (No space left on device); free some space or fix"
    assert problem in error_of(server, X, tmp_path)


def test_a_directory_that_cannot_be_created(server, tmp_path):
    (tmp_path / "file").touch()
    problem = f"--corpus_dir: {tmp_path / 'file'} cannot be written to (File exists)"
    assert problem in error_of(server, X, tmp_path / "file")


def test_an_unknown_part(server, tmp_path):
    assert error_of(server, L, tmp_path, ["train", "dev"]) == (
        "--parts: L has no part train; choose from dev, test, or omit --parts to download all parts."
    )


def test_an_archive_without_the_folder(server, tmp_path):
    other = archives.Corpus("X", 7, "free", "data_y", X.archives)
    assert error_of(server, other, tmp_path) == (
        "data_x.tgz: the archive does not contain the folder data_y, although its MD5 sum is correct; please "
        "report this as a bug."
    )


def test_a_corpus_that_was_withdrawn(server, tmp_path):
    withdrawn = archives.Corpus("X", 7, "free", "data_x", X.archives, unavailable="its owner withdrew it")
    assert error_of(server, withdrawn, tmp_path) == (
        "X: its owner withdrew it, so this program cannot download the corpus; "
        f"if you have data_x.tgz, move it to {tmp_path} and run the command again."
    )
    assert tree(tmp_path) == server.asked == []
    (tmp_path / "data_x.tgz").write_bytes(DATA)
    run(server, withdrawn, tmp_path)
    assert run(server, withdrawn, tmp_path) == ["data_x.tgz"]
    assert tree(tmp_path) == DONE and server.asked == []


@pytest.fixture
def unpacked(tmp_path):
    def unpack_bytes(packed):
        archive = tmp_path / "a.tgz"
        archive.write_bytes(packed)
        unpacking.unpack(str(archive), str(tmp_path / "out"))
        return tmp_path / "out"

    return unpack_bytes


def test_files_folders_and_links_within(unpacked):
    out = unpacked(
        pack(
            folder("./c"),
            folder("c/empty"),
            ("c/data/A11_0.wav", b"sound"),
            link("c/train/A11_0.wav", "../data/A11_0.wav"),  # THCHS-30 contains such links
            hard_link("c/same.wav", "c/data/A11_0.wav"),
        )
    )
    assert tree(out) == ["c/data/A11_0.wav", "c/same.wav", "c/train/A11_0.wav"]
    assert os.readlink(out / "c/train/A11_0.wav") == "../data/A11_0.wav"
    assert (out / "c/train/A11_0.wav").read_bytes() == (out / "c/same.wav").read_bytes() == b"sound"
    assert (out / "c/empty").is_dir()


def test_inner_archives_are_unpacked_in_place(unpacked):
    one, two = pack(("train/S0002/a.wav", b"a")), pack(("test/S0764/b.wav", b"b"))
    inner = (("d/wav/S0002.tar.gz", one), ("d/wav/S0764.tar.gz", two))
    out = unpacked(pack(*inner, ("d/transcript/t.txt", b"t")))
    assert tree(out) == ["d/transcript/t.txt", "d/wav/test/S0764/b.wav", "d/wav/train/S0002/a.wav"]


def test_files_that_macos_adds_are_not_archives(unpacked):
    assert tree(unpacked(pack(("wav/._S0002.tar.gz", b"Mac OS X")))) == ["wav/._S0002.tar.gz"]


@pytest.mark.parametrize(
    "entries, reason",
    [
        ([("../x", b"")], "'../x' would be extracted to "),
        ([link("c/l", "/etc/passwd")], "'c/l' is a link to an absolute path"),
        ([link("c/l", "../../x")], "'c/l' would link to "),
        ([entry("dev", tarfile.CHRTYPE)], "'dev' is a special file"),
        ([hard_link("c/l", "nothing")], "linkname 'nothing' not found"),
    ],
)
def test_entries_that_lead_outside_and_devices_are_refused(unpacked, tmp_path, entries, reason):
    remedy = "it is damaged or contains entries that are not allowed; remove the file and run the command"
    message = rf"/a.tgz: the archive cannot be unpacked \(.*{re.escape(reason)}.*\), because {remedy} again.$"
    with pytest.raises(errors.UserError, match=message):
        unpacked(pack(*entries))
    assert sorted(os.listdir(tmp_path)) == ["a.tgz", "out"]


CLIMB = [folder("a"), folder("a/b"), link("a/b/top", "../..")]


@pytest.mark.parametrize(
    "entries, reason",
    [
        ([*CLIMB, link("l", "a/b/top/../outside")], "'l' is a link whose target has '..' after a folder"),
        ([*CLIMB, link("l", "./a/b/top/..")], "'l' is a link whose target has '..' after a folder"),
        ([*CLIMB, hard_link("l", "a/b/top")], "the path or target of 'l' passes through a link"),
        ([*CLIMB, hard_link("l", "a/b/top/x")], "the path or target of 'l' passes through a link"),
        ([*CLIMB, ("a/b/top/x", b"")], "the path or target of 'a/b/top/x' passes through a link"),
    ],
)
def test_links_that_the_tarfile_filter_misjudges_are_refused(unpacked, tmp_path, entries, reason):
    """The links are like those in CVE-2025-4138 and CVE-2025-4330, which the backport of tarfile has."""
    with pytest.raises(errors.UserError, match=re.escape(f"the archive cannot be unpacked ({reason})")):
        unpacked(pack(*entries, ("l/outside/x", b"")))
    assert sorted(os.listdir(tmp_path)) == ["a.tgz", "out"]


def test_links_whose_path_is_too_long_to_resolve_are_refused(unpacked, tmp_path):
    """CVE-2025-4517: realpath() resolves at most PATH_MAX (4096) characters of a path."""
    long, entries = "d" * ((4096 - len(f"{tmp_path}/out/")) // 17), []
    for depth, name in enumerate("abcdefghijklmnop"):
        entries += [folder("/".join([long] * (depth + 1))), link("/".join([*[long] * depth, name]), long)]
    top = "/".join([*"abcdefghijklmnop", "l" * 254])
    entries += [link(top, "/".join([".."] * 16)), link("l", f"{top}/../outside"), ("l/x", b"")]
    (tmp_path / "outside").mkdir()
    with pytest.raises(errors.UserError, match=f"'{top}' passes through a link"):
        unpacked(pack(*entries))
    assert os.listdir(tmp_path / "outside") == []


def test_a_link_in_an_inner_archive_may_not_pass_through_a_link_of_the_outer_archive(unpacked):
    """Together, the two links would lead outside."""
    inner = pack(link("top/l", "../.."))
    with pytest.raises(errors.UserError, match="'top/l' passes through a link"):
        unpacked(pack(*CLIMB, ("a/b/S1.tar.gz", inner)))


@pytest.mark.parametrize(
    "entries, reason",
    [
        ([("c/a.wav", bytes(80_000_000))], "its files are more than 100 times as large as the archive"),
        pytest.param(
            [(f"c/{i}", b"") for i in range(11_000)] + [folder("d")] * 11_000,
            "its files are more than 100",
            marks=pytest.mark.long,
        ),
        ([("c/" + "d/" * 3000 + "a.wav", b"")], "its folders are nested more than 100 levels deep"),
    ],
    ids=["zeros", "files", "folders"],
)
def test_implausible_archives_are_refused_at_once(unpacked, entries, reason):
    packed = pack(*entries)
    start = time.process_time()
    with pytest.raises(errors.UserError, match=rf"/a.tgz: the archive cannot be unpacked \({reason}"):
        unpacked(packed)
    assert time.process_time() - start < 30  # tarfile alone would need two minutes for 80 MB of zeros


def test_silence_of_a_few_megabytes_is_unpacked(unpacked):
    assert (unpacked(pack(("c/a.wav", bytes(9_000_000)))) / "c" / "a.wav").stat().st_size == 9_000_000


def test_an_inner_archive_may_not_lead_outside_either(unpacked):
    message = r"S1.tar.gz: the archive cannot be unpacked \('../../x' would be extr"
    with pytest.raises(errors.UserError, match=message):
        unpacked(pack(("c/wav/S1.tar.gz", pack(("../../x", b"")))))


WHOLE = pack(("c/a.wav", bytes(range(256)) * 200), ("c/b.wav", os.urandom(20_000)))


@pytest.mark.parametrize("packed", [WHOLE[:10_000], b"", b"<html></html>"], ids=["cut", "empty", "page"])
def test_a_damaged_archive(unpacked, packed):
    with pytest.raises(errors.UserError, match=r"/a.tgz: the archive cannot be unpacked \("):
        unpacked(packed)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="CPython from 3.12 on has the filters")
def test_python_without_tar_filters_uses_the_backport(tmp_path):
    """Python 3.11.2 of Debian 12 has no filters."""
    (tmp_path / "a.tgz").write_bytes(pack(("../x", b"")))
    code = (
        "import sys, tarfile\n"
        "if hasattr(tarfile, 'data_filter'): del tarfile.data_filter\n"
        "from tfrecord_builder.corpora.downloading import unpacking\n"
        "assert unpacking.tarfile.__name__ == 'backports.tarfile'\n"
        "unpacking.unpack(*sys.argv[1:])"
    )
    command = [sys.executable, "-c", code, tmp_path / "a.tgz", tmp_path / "out"]
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True)
    assert "the archive cannot be unpacked ('../x' would be extracted to " in done.stderr
