"""The directory of downloaded corpora, and how far each archive has come.

data_thchs30.tgz.incomplete                being downloaded
data_thchs30.tgz                           complete, not unpacked
data_thchs30.tgz.wrong                     has another MD5 sum
data_thchs30.incomplete/                   being unpacked
data_thchs30/                              the corpus
data_thchs30/.data_thchs30.tgz.unpacked    marks the archive as completely unpacked; the archive is removed
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
import posixpath
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from tfrecord_builder import errors
from tfrecord_builder.downloading import archives, fetch
from tfrecord_builder.settings import progress_bar
from tfrecord_builder.storage import files, locks

if not hasattr(tarfile, "data_filter"):  # CPython before 3.10.12 and 3.11.4
    from backports import tarfile

_MAX_RATIO = 100  # unpacked size to archive size: speech is below 2, transcripts are about 5
_MIN_ROOM_BYTES = 10_000_000  # any archive may unpack to this size
_MAX_FOLDERS = 100


def select_archives(corpus: archives.Corpus, parts: Sequence[str]) -> list[archives.Archive]:
    """Returns the archives of the parts, all if there are none; raises UserError for an unknown part."""
    names = [archive.part for archive in corpus.archives]
    unknown = sorted(set(parts) - set(names))
    if unknown:
        raise errors.UserError(
            f"--parts: {', '.join(unknown)} is not a part of {corpus.title}, expected some of "
            f"{', '.join(names)}; omit --parts to download all."
        )
    return [archive for archive in corpus.archives if not parts or archive.part in parts]


def download(
    corpus: archives.Corpus, directory: str, parts: Sequence[str] = (), mirror: str = archives.SITE
) -> list[str]:
    """Downloads, verifies and unpacks the archives of the parts (all if there are none) that are missing.

    The mirror is a site, without a trailing slash, that has /resources/NUMBER/ARCHIVE.

    Returns:
        Names of the archives that were unpacked before.

    Raises:
        UserError: the corpus cannot be downloaded or unpacked; what was received is kept for the next call.
    """
    selected = select_archives(corpus, parts)
    _check_available(corpus, selected, directory)
    with _locked(directory):
        finished = [each for each in selected if os.path.exists(_marker(corpus, each, directory))]
        if finished != selected:
            _check_owned(corpus, directory)
        for archive in selected:
            path = os.path.join(directory, archive.name)
            if archive not in finished:
                _provide(archive, f"{mirror}/resources/{corpus.number}/{archive.name}", path)
                _install(corpus, archive, directory)
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
    return [archive.name for archive in finished]


@contextlib.contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Creates the directory and locks it against other downloads; turns OSError into UserError."""
    try:
        os.makedirs(directory, exist_ok=True)
        busy = (
            f"--corpus_dir: {directory} is locked by another download, expected no other; wait until it ends."
        )
        with locks.exclusive(directory, busy):
            yield
    except OSError as error:
        raise errors.UserError(
            f"--corpus_dir: {error.filename or directory} cannot be written ({error.strerror or error}), "
            "expected free space and permission; fix that and run the command again: what was received is "
            "kept."
        ) from error


def _check_available(corpus: archives.Corpus, selected: Sequence[archives.Archive], directory: str) -> None:
    """Refuses a corpus that cannot be downloaded, unless its archives were put into the directory."""
    missing = [each.name for each in selected if not _has_traces(corpus, [each], directory)]
    if corpus.unavailable and (missing or not selected):
        advice = f"put {', '.join(missing)} into {directory}, if you have it, and run the command again."
        raise errors.UserError(
            f"{corpus.title}: {corpus.unavailable}, expected a public download; "
            f"{corpus.instructions or advice}"
        )


def _check_owned(corpus: archives.Corpus, directory: str) -> None:
    """Refuses a folder of the corpus that this program did not create."""
    target = os.path.join(directory, corpus.folder)
    if os.path.lexists(target) and not _has_traces(corpus, corpus.archives, directory):
        raise errors.UserError(
            f"--corpus_dir: {target} exists and was not created by this program, expected no such directory; "
            "build from it as it is, remove it, or choose another --corpus_dir."
        )


def _has_traces(corpus: archives.Corpus, some: Sequence[archives.Archive], directory: str) -> bool:
    """Returns whether one of the archives is there, in part or unpacked."""
    paths = [os.path.join(directory, archive.name) for archive in some]
    paths += [f"{path}.incomplete" for path in paths] + [_marker(corpus, each, directory) for each in some]
    return any(map(os.path.exists, paths))


def _provide(archive: archives.Archive, url: str, path: str) -> None:
    """Downloads the archive unless it is there; verifies it in both cases."""
    if not os.path.exists(path):
        fetch.fetch(url, f"{path}.incomplete", archive.num_bytes)
        os.replace(f"{path}.incomplete", path)
    fetch.check_md5(path, archive.md5)


def _install(corpus: archives.Corpus, archive: archives.Archive, directory: str) -> None:
    """Unpacks the archive beside the corpus, and moves the files into place when all are there."""
    target = os.path.join(directory, corpus.folder)
    staging = f"{target}.incomplete"
    if os.path.exists(staging):
        shutil.rmtree(staging)  # left by a call that was killed
    unpack(os.path.join(directory, archive.name), staging)
    source = os.path.join(staging, corpus.folder) if corpus.has_top_folder else staging
    if not os.path.isdir(source):
        raise errors.UserError(
            f"{archive.name}: folder {corpus.folder} is missing, expected it in the archive; "
            f"look at its files in {staging}."
        )
    _merge(source, target)
    shutil.rmtree(staging, ignore_errors=True)
    files.write_text(_marker(corpus, archive, directory), f"{archive.md5}  {archive.name}\n")


def unpack(archive: str, directory: str) -> None:
    """Unpacks a .tar.gz, whose checksum was verified, into a new directory.

    Names and links that lead outside are refused, and devices. Archives inside (AISHELL-1 and
    aidatatang_200zh have one per speaker) are unpacked where they are, and removed.

    Raises:
        UserError: the archive is damaged, or has an entry that is refused.
        OSError: the directory cannot be written.
    """
    os.makedirs(directory)
    with open(archive, "rb") as plain:
        size, name = os.path.getsize(archive), os.path.basename(archive)
        with progress_bar.ProgressBar.wrapattr(plain, "read", size, desc=f"unpacking {name}") as file:
            _extract(file, archive, directory)
    inner = [
        path
        for path in files.find_files(directory, (".tar.gz",))
        if not os.path.basename(path).startswith(".")  # ._S0002.tar.gz of macOS is not an archive
    ]
    for path in progress_bar.ProgressBar(inner, "unpacking archives inside", disable=not inner):
        with open(path, "rb") as file:
            _extract(file, path, os.path.dirname(path))
        os.remove(path)


def _extract(file: BinaryIO, path: str, directory: str) -> None:
    try:
        # Not mode r|gz, which copies what is left of each decompressed block for each read.
        with gzip.open(file) as plain, tarfile.open(fileobj=plain, mode="r|", bufsize=1 << 16) as tar:
            tar.extractall(directory, _check_members(tar, path), filter=_filter)
    except (tarfile.TarError, EOFError, KeyError, zlib.error, gzip.BadGzipFile) as error:
        raise errors.UserError(
            f"{path}: it cannot be unpacked ({error or type(error).__name__}), expected a .tar.gz with files "
            "and folders of its own; remove it and run the command again."
        ) from error


def _check_members(tar: tarfile.TarFile, path: str) -> Iterator[tarfile.TarInfo]:
    """Yields the members of an archive; raises TarError if they need far more than a corpus."""
    room = max(_MIN_ROOM_BYTES, _MAX_RATIO * os.path.getsize(path))
    for member in tar:
        room -= member.size + tarfile.BLOCKSIZE
        if room < 0:
            raise tarfile.TarError(f"its files have more than {_MAX_RATIO} times its size")
        if member.name.count("/") > _MAX_FOLDERS:
            raise tarfile.TarError(f"its folders are nested more than {_MAX_FOLDERS} deep")
        yield member


def _filter(member: tarfile.TarInfo, directory: str) -> tarfile.TarInfo:
    """Applies the "data" filter of tarfile (PEP 706), and refuses the links that mislead its older releases.

    A link whose target has ".." only at its beginning, in a folder that is not reached through a link, leads
    where its text says (CVE-2025-4138, CVE-2025-4330, CVE-2025-4517).
    """
    below = itertools.dropwhile(("", ".", "..").__contains__, member.linkname.split("/"))
    if member.issym() and ".." in below:
        raise tarfile.TarError(f"{member.name!r} is a link with '..' after a name")
    for name in (posixpath.dirname(member.name), member.linkname if member.islnk() else ""):
        if _has_link(directory, name):
            raise tarfile.TarError(f"{member.name!r} leads through a link")
    return tarfile.data_filter(member, directory)


def _has_link(directory: str, name: str) -> bool:
    parts = itertools.accumulate(name.strip("/").split("/"), os.path.join)
    return any(os.path.islink(os.path.join(directory, part)) for part in parts)


def _marker(corpus: archives.Corpus, archive: archives.Archive, directory: str) -> str:
    return os.path.join(directory, corpus.folder, f".{archive.name}.unpacked")


def _merge(source: str, target: str) -> None:
    """Moves a file or a directory; the contents of a directory that exists in the target are added to it."""
    if os.path.isdir(target) and os.path.isdir(source) and not os.path.islink(source):
        for name in sorted(os.listdir(source)):
            _merge(os.path.join(source, name), os.path.join(target, name))
    else:
        os.replace(source, target)
