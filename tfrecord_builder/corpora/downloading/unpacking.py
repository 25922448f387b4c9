"""Downloads archives and unpacks them into a directory of corpora. File names show each archive's state:

data_thchs30.tgz.incomplete                being downloaded
data_thchs30.tgz                           complete, not unpacked yet
data_thchs30.tgz.wrong                     complete, but with a wrong MD5 sum
data_thchs30.incomplete/                   being unpacked
data_thchs30/                              the corpus
data_thchs30/.data_thchs30.tgz.unpacked    marks the archive as fully unpacked; the archive is then removed
"""

from __future__ import annotations

import contextlib
import gzip
import itertools
import os
import posixpath
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from tfrecord_builder import errors
from tfrecord_builder.corpora.downloading import archives, fetch
from tfrecord_builder.program import progress_bar
from tfrecord_builder.storage import directories, files, locks

if not hasattr(tarfile, "data_filter"):  # added in CPython 3.10.12 and 3.11.4
    from backports import tarfile

_MAX_RATIO = 100  # maximum ratio of unpacked to archive size (below 2 for speech, about 5 for transcripts)
_MIN_ROOM_BYTES = 10_000_000  # any archive may unpack to this size, whatever the ratio
_MAX_FOLDERS = 100  # maximum depth of nested folders


def select_archives(corpus: archives.Corpus, parts: Sequence[str]) -> list[archives.Archive]:
    """Returns the archives of `parts`, or all if `parts` is empty; raises UserError for unknown parts."""
    names = [archive.part for archive in corpus.archives]
    unknown = sorted(set(parts) - set(names))
    if unknown:
        raise errors.UserError(
            f"--parts: {corpus.title} has no part {' or '.join(unknown)}; choose from {', '.join(names)}, "
            "or omit --parts to download all parts."
        )
    return [archive for archive in corpus.archives if not parts or archive.part in parts]


def download(
    corpus: archives.Corpus, directory: str, parts: Sequence[str] = (), mirror: str = archives.SITE
) -> list[str]:
    """Downloads, verifies and unpacks the missing archives of `parts`, or of all parts if `parts` is empty.

    `mirror` is a site's URL, without a trailing slash; the site must serve /resources/NUMBER/ARCHIVE. Returns
    the names of the archives that had already been unpacked. Raises UserError if the corpus cannot be
    downloaded or unpacked; received data is kept for the next call.
    """
    selected = select_archives(corpus, parts)
    _check_available(corpus, selected, directory)
    with _locked(directory):
        finished = [item for item in selected if os.path.exists(_marker(corpus, item, directory))]
        if finished != selected:
            _check_owned(corpus, directory)
        for archive in selected:
            path = os.path.join(directory, archive.name)
            if archive not in finished:
                if not os.path.exists(path):
                    url = f"{mirror}/resources/{corpus.number}/{archive.name}"
                    fetch.fetch(url, f"{path}.incomplete", archive.num_bytes)
                    os.replace(f"{path}.incomplete", path)
                fetch.check_md5(path, archive.md5)
                _install(corpus, archive, directory)
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
    return [archive.name for archive in finished]


@contextlib.contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Creates the directory and locks it against other downloads; turns OSError into UserError."""
    try:
        os.makedirs(directory, exist_ok=True)
        busy = f"--corpus_dir: {directory} is locked by another download; wait until it ends."
        with locks.exclusive(directory, busy):
            yield
    except OSError as error:
        raise errors.UserError(
            f"--corpus_dir: {error.filename or directory} cannot be written to ({error.strerror or error}); "
            "free some space or fix the permissions, then run the command again: downloaded data is kept."
        ) from error


def _check_available(corpus: archives.Corpus, selected: Sequence[archives.Archive], directory: str) -> None:
    """Raises UserError if a corpus cannot be downloaded, unless its archives are already on disk."""
    missing = [item.name for item in selected if not _has_traces(corpus, [item], directory)]
    if corpus.unavailable and (missing or not selected):
        advice = f"if you have {', '.join(missing)}, move it to {directory} and run the command again."
        raise errors.UserError(
            f"{corpus.title}: {corpus.unavailable}, so this program cannot download the corpus; "
            f"{corpus.instructions or advice}"
        )


def _check_owned(corpus: archives.Corpus, directory: str) -> None:
    """Raises UserError if the folder of the corpus exists but was not created by this program."""
    target = os.path.join(directory, corpus.folder)
    if os.path.lexists(target) and not _has_traces(corpus, corpus.archives, directory):
        raise errors.UserError(
            f"--corpus_dir: {target} exists, but was not created by this program; "
            "build from it as it is, remove it, or choose another --corpus_dir."
        )


def _has_traces(corpus: archives.Corpus, some: Sequence[archives.Archive], directory: str) -> bool:
    """Returns True if any of the archives exists, is partially downloaded, or was unpacked."""
    paths = [os.path.join(directory, archive.name) for archive in some]
    paths += [f"{path}.incomplete" for path in paths]
    paths += [_marker(corpus, archive, directory) for archive in some]
    return any(map(os.path.exists, paths))


def _install(corpus: archives.Corpus, archive: archives.Archive, directory: str) -> None:
    """Unpacks the archive into a directory next to the corpus, then moves all files into place."""
    target = os.path.join(directory, corpus.folder)
    with directories.temporary(f"{target}.incomplete") as unpacked:
        unpack(os.path.join(directory, archive.name), unpacked)
        source = os.path.join(unpacked, corpus.folder) if corpus.has_top_folder else unpacked
        if not os.path.isdir(source):
            raise errors.UserError(
                f"{archive.name}: the archive does not contain the folder {corpus.folder}, although its MD5 "
                "sum is correct; please report this as a bug."
            )
        _merge(source, target)
    files.write_text(_marker(corpus, archive, directory), f"{archive.md5}  {archive.name}\n")


def unpack(archive: str, directory: str) -> None:
    """Unpacks a .tar.gz file with a verified checksum into an empty or new directory.

    Device files are refused, as are paths and links that point outside the directory. Inner archives
    (AISHELL-1 and aidatatang_200zh contain one per speaker) are unpacked in place and then removed. Raises
    UserError if the archive is damaged or contains an entry that is refused, and OSError if the directory
    cannot be written to.
    """
    os.makedirs(directory, exist_ok=True)
    with open(archive, "rb") as plain:
        size, name = os.path.getsize(archive), os.path.basename(archive)
        with progress_bar.ProgressBar.wrapattr(plain, "read", size, desc=f"unpacking {name}") as file:
            _extract(file, archive, directory)
    inner = [
        path
        for path in files.find_files(directory, (".tar.gz",))
        if not os.path.basename(path).startswith(".")  # macOS adds files such as ._S0002.tar.gz
    ]
    for path in progress_bar.ProgressBar(inner, "unpacking inner archives", disable=not inner):
        with open(path, "rb") as file:
            _extract(file, path, os.path.dirname(path))
        os.remove(path)


def _extract(file: BinaryIO, path: str, directory: str) -> None:
    try:
        # Mode r|gz would be slow, because every read copies the rest of the decompressed block.
        with gzip.open(file) as plain, tarfile.open(fileobj=plain, mode="r|", bufsize=1 << 16) as tar:
            tar.extractall(directory, _check_members(tar, path), filter=_filter)
    except (tarfile.TarError, EOFError, KeyError, zlib.error, gzip.BadGzipFile) as error:
        raise errors.UserError(
            f"{path}: the archive cannot be unpacked ({error or type(error).__name__}), because it is "
            "damaged or contains entries that are not allowed; remove the file and run the command again."
        ) from error


def _check_members(tar: tarfile.TarFile, path: str) -> Iterator[tarfile.TarInfo]:
    """Yields the members of an archive; raises TarError if they are too large or nested too deeply."""
    room = max(_MIN_ROOM_BYTES, _MAX_RATIO * os.path.getsize(path))
    for member in tar:
        room -= member.size + tarfile.BLOCKSIZE
        if room < 0:
            raise tarfile.TarError(f"its files are more than {_MAX_RATIO} times as large as the archive")
        if member.name.count("/") > _MAX_FOLDERS:
            raise tarfile.TarError(f"its folders are nested more than {_MAX_FOLDERS} levels deep")
        yield member


def _filter(member: tarfile.TarInfo, directory: str) -> tarfile.TarInfo:
    """Applies tarfile's "data" filter (PEP 706), and refuses links that older versions of it misjudge.

    The text of a link's target shows where the link points only if ".." occurs only at the beginning, and if
    the path to the link contains no other link (CVE-2025-4138, CVE-2025-4330, CVE-2025-4517).
    """
    below = itertools.dropwhile(("", ".", "..").__contains__, member.linkname.split("/"))
    if member.issym() and ".." in below:
        raise tarfile.TarError(f"{member.name!r} is a link whose target has '..' after a folder")
    for name in (posixpath.dirname(member.name), member.linkname if member.islnk() else ""):
        parts = itertools.accumulate(name.strip("/").split("/"), os.path.join)
        if any(os.path.islink(os.path.join(directory, part)) for part in parts):
            raise tarfile.TarError(f"the path or target of {member.name!r} passes through a link")
    return tarfile.data_filter(member, directory)


def _marker(corpus: archives.Corpus, archive: archives.Archive, directory: str) -> str:
    return os.path.join(directory, corpus.folder, f".{archive.name}.unpacked")


def _merge(source: str, target: str) -> None:
    """Moves a file or directory; if the target directory exists, moves the contents into it."""
    if os.path.isdir(target) and os.path.isdir(source) and not os.path.islink(source):
        for name in sorted(os.listdir(source)):
            _merge(os.path.join(source, name), os.path.join(target, name))
    else:
        os.replace(source, target)
