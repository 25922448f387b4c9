import gzip
import os
import tarfile

import pytest
from small_archives import entry, folder, hard_link, link, pack

from tfrecord_builder import errors
from tfrecord_builder.downloading import unpack


@pytest.fixture
def run(tmp_path):
    def unpack_bytes(packed, limits=unpack.LIMITS):
        archive = tmp_path / "a.tgz"
        archive.write_bytes(packed)
        unpack.unpack(str(archive), str(tmp_path / "out"), limits)
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
            hard_link("./c/same.wav", "c/data/A11_0.wav"),
            link("c/top", "data"),
        )
    )
    assert tree(out) == ["c/data/A11_0.wav", "c/same.wav", "c/train/A11_0.wav"]
    assert os.readlink(out / "c/train/A11_0.wav") == "../data/A11_0.wav"
    assert (out / "c/train/A11_0.wav").read_bytes() == (out / "c/same.wav").read_bytes() == b"sound"
    assert (out / "c/top/A11_0.wav").exists() and (out / "c/empty").is_dir()


def test_permissions_are_those_of_any_new_file(run, tmp_path):
    member, content = entry("run.sh", content=b"x")
    member.mode, member.uid, member.mtime = 0o6777, 12345, 1e9
    out = run(pack((member, content)))
    (tmp_path / "new").touch()
    found, usual = os.stat(out / "run.sh"), os.stat(tmp_path / "new")
    assert (found.st_mode, found.st_uid) == (usual.st_mode, usual.st_uid)


def test_archives_inside_are_unpacked_where_they_lie(run):
    one, two = pack(("train/S0002/a.wav", b"a")), pack(("test/S0764/b.wav", b"b"))
    out = run(pack(("d/wav/S0002.tar.gz", one), ("d/wav/S0764.tar.gz", two), ("d/transcript/t.txt", b"t")))
    assert tree(out) == ["d/transcript/t.txt", "d/wav/test/S0764/b.wav", "d/wav/train/S0002/a.wav"]


def test_an_archive_at_the_top_is_unpacked_there(run):
    assert tree(run(pack(("S1.tar.gz", pack(("./S1/a.wav", b"a"), folder(".")))))) == ["S1/a.wav"]


def test_what_macos_adds_is_no_archive(run):
    assert tree(run(pack(("wav/._S0002.tar.gz", b"Mac OS X")))) == ["wav/._S0002.tar.gz"]


def test_a_name_twice_is_the_later_one(run):
    assert (run(pack(("a", b"1"), ("a", b"22"))) / "a").read_bytes() == b"22"


def test_names_of_any_bytes(run):
    out = run(pack(("c/\udcff.wav", b"x")))
    assert os.listdir(os.fsencode(out / "c")) == [b"\xff.wav"]


@pytest.mark.parametrize(
    "entries, said",
    [
        ([("/etc/x", b"")], "'/etc/x', which leads outside"),
        ([("../x", b"")], "'../x', which leads outside"),
        ([("c/../../x", b"")], "'c/../../x', which leads outside"),
        ([folder("..")], "'..', which leads outside"),
        ([("\udcff/../x", b"")], r"'\\xff/../x', which leads outside"),
        ([link("c/l", "/etc/passwd")], "'c/l', a link that leads outside"),
        ([link("c/l", "../../x")], "'c/l', a link that leads outside"),
        ([link("l", "..")], "'l', a link that leads outside"),
        ([link("c/l", "d/../../..")], "'c/l', a link that leads outside"),
        # Each link by itself stays inside, the second through the first does not.
        ([link("c/one", "."), link("c/one/two", "..")], "'c/one/two', which leads through a link"),
        ([link("c/one", "d"), ("c/one/x", b"")], "'c/one/x', which leads through a link"),
        ([folder("c/d"), link("c/one", "d"), folder("c/one/e")], "'c/one/e', which leads through a link"),
        ([hard_link("h", "../x")], "'../x', which leads outside"),
        ([hard_link("h", "/etc/passwd")], "'/etc/passwd', which leads outside"),
        ([hard_link("h", "none")], "'h', a link to no file of its own"),
        ([("a", b""), link("l", "a"), hard_link("h", "l")], "'h', a link to no file of its own"),
        ([entry("dev", tarfile.CHRTYPE)], "'dev', which is a device"),
        ([entry("fifo", tarfile.FIFOTYPE)], "'fifo', which is a device"),
        ([("a", b""), ("a/b", b"")], "'a/b', where a file lies already"),
        ([("a", b""), folder("a")], "'a', where a file lies already"),
        ([folder("a"), ("a", b"")], "'a', where a folder lies already"),
        ([(".", b"")], "'.', where a folder lies already"),
    ],
)
def test_what_is_not_for_this_directory_is_refused(run, tmp_path, entries, said):
    with pytest.raises(errors.UserError) as caught:
        run(pack(*entries))
    assert str(caught.value) == (
        f"{tmp_path / 'a.tgz'}: it holds {said}, expected files and folders of its own; "
        "do not use this archive, nothing of it was put in place."
    )
    assert sorted(os.listdir(tmp_path)) == ["a.tgz", "out"]


def test_a_file_never_goes_through_a_link_of_its_name(run, tmp_path):
    out = run(pack(("a", b"old"), link("l", "a"), ("l", b"new")))
    assert (out / "a").read_bytes() == b"old" and (out / "l").read_bytes() == b"new"


def test_an_archive_inside_may_not_lead_outside_either(run, tmp_path):
    with pytest.raises(errors.UserError, match=r"S1.tar.gz: it holds '../../x', which leads outside"):
        run(pack(("c/wav/S1.tar.gz", pack(("../../x", b"")))))


@pytest.mark.parametrize(
    "entries, said",
    [
        ([(f"{i}", b"") for i in range(6)], "it holds more than 5 entries"),
        ([("a", b"x" * 60), ("b", b"x" * 60)], "it holds more than 100 bytes"),
        ([("a", b"x" * 60), hard_link("b", "a")], "it holds more than 100 bytes"),
        ([("a.tar.gz", pack(*((f"{i}", b"") for i in range(6))))], "a.tar.gz: it holds more than 5 entries"),
    ],
)
def test_absurd_numbers_are_refused(run, entries, said):
    limits = unpack.Limits(5, 100 if "bytes" in said else 10**6)
    with pytest.raises(errors.UserError, match=said):
        run(pack(*entries), limits)


WHOLE = pack(("c/a.wav", bytes(range(256)) * 200), ("c/b.wav", os.urandom(20_000)))


def broken(position):
    return WHOLE[:position] + bytes([WHOLE[position] ^ 0xFF]) + WHOLE[position + 1 :]


PADDED = bytearray(gzip.compress(gzip.decompress(WHOLE) + bytes(3 << 20)))  # tar's end lies far before gzip's
PADDED[-6] ^= 0xFF


@pytest.mark.parametrize(
    "packed",
    [
        WHOLE[:10_000],
        WHOLE[:-1],
        b"",
        b"<html>sign in</html>",
        gzip.compress(b"no tar at all" * 100),
        gzip.compress(b""),
        broken(5_000),
        broken(len(WHOLE) - 6),  # gzip's own checksum
        bytes(PADDED),
    ],
    ids=["half", "last byte", "empty", "page", "no tar", "empty tar", "flipped bit", "checksum", "padded"],
)
def test_a_broken_archive(run, tmp_path, packed):
    with pytest.raises(errors.UserError) as caught:
        run(packed)
    assert str(caught.value).startswith(f"{tmp_path / 'a.tgz'}: it cannot be unpacked (")
    assert str(caught.value).endswith("), expected a whole .tar.gz; remove it and call again.")


def test_every_cut_is_noticed(run, tmp_path):
    packed = pack(("c/a.wav", b"a"), ("c/b.wav", b"b"))
    for i, length in enumerate(range(0, len(packed), 7)):
        (tmp_path / f"{i}.tgz").write_bytes(packed[:length])
        with pytest.raises(errors.UserError, match="it cannot be unpacked"):
            unpack.unpack(str(tmp_path / f"{i}.tgz"), str(tmp_path / f"out{i}"))
