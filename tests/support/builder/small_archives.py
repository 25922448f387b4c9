"""Tiny archives, and corpora that consist of them, for tests of downloading."""

import gzip
import hashlib
import io
import random
import tarfile

from tfrecord_builder.corpora.downloading import archives


def entry(name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", link: str = "") -> tuple:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, len(content)
    return member, content


def folder(name: str) -> tuple:
    return entry(name, tarfile.DIRTYPE)


def link(name: str, target: str) -> tuple:
    return entry(name, tarfile.SYMTYPE, link=target)


def hard_link(name: str, target: str) -> tuple:
    return entry(name, tarfile.LNKTYPE, link=target)


def pack(*entries) -> bytes:
    """Returns a .tar.gz file with entries or (name, content) pairs; equal entries produce equal bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        for first, content in entries:
            member = first if isinstance(first, tarfile.TarInfo) else entry(first, content=content)[0]
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), mtime=0)


SOUND = random.Random(1).randbytes(200_000)
DATA = pack(("data_x/wav/S1.tar.gz", pack(("train/S1/a.wav", SOUND))), ("data_x/t.txt", b"a one\n"))
DEV = pack(("L/README", b"dev"), ("L/dev/a.wav", b"d"))
TEST = pack(("L/README", b"test"), ("L/test/a.wav", b"t"))
TOPLESS = (pack(("train/a.wav", b"a"), ("ReadMe", b"1")), pack(("dev/b.wav", b"b")))


def archive(name, packed):
    return archives.Archive(name, len(packed), hashlib.md5(packed).hexdigest())


X = archives.Corpus("X", 7, "free", "data_x", (archive("data_x.tgz", DATA),))
L = archives.Corpus("L", 8, "free", "L", (archive("dev.tar.gz", DEV), archive("test.tar.gz", TEST)))
M = archives.Corpus(
    "M", 9, "free", "m", (archive("a.tgz", TOPLESS[0]), archive("b.tgz", TOPLESS[1])), has_top_folder=False
)
FILES = {
    "/resources/7/data_x.tgz": DATA,
    "/resources/8/dev.tar.gz": DEV,
    "/resources/8/test.tar.gz": TEST,
    "/resources/9/a.tgz": TOPLESS[0],
    "/resources/9/b.tgz": TOPLESS[1],
}
