import os
import tarfile

import pytest
from small_archives import entry, folder, hard_link, link, pack

from tfrecord_builder import errors
from tfrecord_builder.downloading import unpack


@pytest.fixture
def run(tmp_path):
    def unpack_bytes(packed):
        archive = tmp_path / "a.tgz"
        archive.write_bytes(packed)
        unpack.unpack(str(archive), str(tmp_path / "out"))
        return tmp_path / "out"

    return unpack_bytes


def tree(directory):
    return sorted(
        os.path.relpath(os.path.join(d, f), directory) for d, _, fs in os.walk(directory) for f in fs
    )


def test_files_folders_and_links_within(run):
    out = run(
        pack(
            folder("./c"),
            folder("c/empty"),
            ("c/data/A11_0.wav", b"sound"),
            link("c/train/A11_0.wav", "../data/A11_0.wav"),  # as in THCHS-30
            hard_link("c/same.wav", "c/data/A11_0.wav"),
        )
    )
    assert tree(out) == ["c/data/A11_0.wav", "c/same.wav", "c/train/A11_0.wav"]
    assert os.readlink(out / "c/train/A11_0.wav") == "../data/A11_0.wav"
    assert (out / "c/train/A11_0.wav").read_bytes() == (out / "c/same.wav").read_bytes() == b"sound"
    assert (out / "c/empty").is_dir()


def test_archives_inside_are_unpacked_where_they_are(run):
    one, two = pack(("train/S0002/a.wav", b"a")), pack(("test/S0764/b.wav", b"b"))
    out = run(pack(("d/wav/S0002.tar.gz", one), ("d/wav/S0764.tar.gz", two), ("d/transcript/t.txt", b"t")))
    assert tree(out) == ["d/transcript/t.txt", "d/wav/test/S0764/b.wav", "d/wav/train/S0002/a.wav"]


def test_files_that_macos_adds_are_not_archives(run):
    assert tree(run(pack(("wav/._S0002.tar.gz", b"Mac OS X")))) == ["wav/._S0002.tar.gz"]


@pytest.mark.parametrize(
    "entries, reason",
    [
        ([("../x", b"")], "'../x' would be extracted to "),
        ([link("c/l", "/etc/passwd")], "'c/l' is a link to an absolute path"),
        ([link("c/l", "../../x")], "'c/l' would link to "),
        ([entry("dev", tarfile.CHRTYPE)], "'dev' is a special file"),
    ],
)
def test_entries_that_lead_outside_and_devices_are_refused(run, tmp_path, entries, reason):
    with pytest.raises(errors.UserError) as caught:
        run(pack(*entries))
    assert str(caught.value).startswith(f"{tmp_path / 'a.tgz'}: it cannot be unpacked (")
    assert reason in str(caught.value)
    assert str(caught.value).endswith(
        "), expected a .tar.gz with files and folders of its own; remove it and run the command again."
    )
    assert sorted(os.listdir(tmp_path)) == ["a.tgz", "out"]


def test_an_archive_inside_may_not_lead_outside_either(run):
    with pytest.raises(errors.UserError, match=r"S1.tar.gz: it cannot be unpacked \('../../x' would be extr"):
        run(pack(("c/wav/S1.tar.gz", pack(("../../x", b"")))))


WHOLE = pack(("c/a.wav", bytes(range(256)) * 200), ("c/b.wav", os.urandom(20_000)))


@pytest.mark.parametrize(
    "packed", [WHOLE[:10_000], b"", b"<html>sign in</html>"], ids=["cut", "empty", "page"]
)
def test_a_damaged_archive(run, tmp_path, packed):
    with pytest.raises(errors.UserError) as caught:
        run(packed)
    assert str(caught.value).startswith(f"{tmp_path / 'a.tgz'}: it cannot be unpacked (")


def test_a_python_without_the_filter_is_refused(monkeypatch):
    monkeypatch.delattr(tarfile, "data_filter")
    monkeypatch.setattr(unpack.platform, "python_version", lambda: "3.9.16")
    with pytest.raises(errors.UserError) as caught:
        unpack.check_python()
    assert str(caught.value) == (
        "Python: version is 3.9.16, expected 3.9.17, 3.10.12, 3.11.4 or a later patch release, whose tarfile "
        'has filter="data"; update Python, or unpack the archive yourself.'
    )
