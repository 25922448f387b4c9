"""The directory of downloaded corpora, and how far each archive has come.

data_thchs30.tgz.incomplete                being downloaded
data_thchs30.tgz                           complete and verified, not unpacked
data_thchs30.tgz.wrong                     has another MD5 sum
data_thchs30.incomplete/                   being unpacked
data_thchs30/                              the corpus
data_thchs30/.data_thchs30.tgz.unpacked    marks the archive as completely unpacked; the archive is removed
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence

from tfrecord_builder import errors
from tfrecord_builder.downloading import archives, fetch, unpack
from tfrecord_builder.storage import files, locks


def select_archives(corpus: archives.Corpus, parts: Sequence[str]) -> list[archives.Archive]:
    """Returns the archives of the parts, all if there are none; raises UserError for an unknown part."""
    known = [archive.part for archive in corpus.archives]
    unknown = sorted(set(parts) - set(known))
    if unknown:
        raise errors.UserError(
            f"--parts: {', '.join(unknown)} is not a part of {corpus.title}, expected some of "
            f"{', '.join(known)}; omit --parts to download all."
        )
    return [archive for archive in corpus.archives if not parts or archive.part in parts]


def download(
    corpus: archives.Corpus, directory: str, parts: Sequence[str] = (), mirror: str = archives.SITE
) -> list[str]:
    """Downloads, verifies and unpacks the archives that are missing.

    Args:
        corpus: what to download.
        directory: where to; it is created if it does not exist.
        parts: names of parts, empty for all.
        mirror: the site, without a trailing slash, that has /resources/NUMBER/ARCHIVE.

    Returns:
        Names of the archives that were unpacked before.

    Raises:
        UserError: the corpus cannot be downloaded or unpacked; what was received is kept for the next call.
    """
    selected = select_archives(corpus, parts)
    _check_available(corpus, selected, directory)
    unpack.check_python()
    with _locked(directory):
        finished = [each for each in selected if os.path.exists(_marker(corpus, each, directory))]
        if finished != selected:
            _check_owned(corpus, directory)
        for archive in selected:
            path = os.path.join(directory, archive.name)
            if archive not in finished:
                url = f"{mirror}/resources/{corpus.number}/{archive.name}"
                _provide(archive, url, path)
                _unpack(corpus, archive, directory)
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
    """Raises UserError if the corpus cannot be downloaded, and an archive was not put into the directory."""
    missing = [each.name for each in selected if not _has_traces(corpus, [each], directory)]
    if corpus.unavailable and (missing or not selected):
        advice = f"put {', '.join(missing)} into {directory}, if you have it, and run the command again."
        raise errors.UserError(
            f"{corpus.title}: {corpus.unavailable}, expected a public download; "
            f"{corpus.instructions or advice}"
        )


def _check_owned(corpus: archives.Corpus, directory: str) -> None:
    """Raises UserError if the folder of the corpus exists, and this program did not create it."""
    target = os.path.join(directory, corpus.folder)
    if os.path.lexists(target) and not _has_traces(corpus, corpus.archives, directory):
        raise errors.UserError(
            f"--corpus_dir: {target} exists and was not created by this program, expected no such directory; "
            "build from it as it is, remove it, or choose another --corpus_dir."
        )


def _has_traces(corpus: archives.Corpus, found: Sequence[archives.Archive], directory: str) -> bool:
    """Returns whether one of the archives is there, in part or unpacked."""
    paths = [os.path.join(directory, archive.name) for archive in found]
    paths += [f"{path}.incomplete" for path in paths] + [_marker(corpus, each, directory) for each in found]
    return any(map(os.path.exists, paths))


def _provide(archive: archives.Archive, url: str, path: str) -> None:
    """Downloads the archive unless the path exists; verifies it in both cases."""
    if os.path.exists(path):
        return fetch.check_md5(path, archive.md5, f"{path}.wrong")
    incomplete = f"{path}.incomplete"
    fetch.fetch(url, incomplete, archive.num_bytes)
    fetch.check_md5(incomplete, archive.md5, f"{path}.wrong")
    os.replace(incomplete, path)


def _unpack(corpus: archives.Corpus, archive: archives.Archive, directory: str) -> None:
    """Unpacks the archive beside the corpus, and moves the files into place when all are there."""
    target = os.path.join(directory, corpus.folder)
    staging = f"{target}.incomplete"
    if os.path.exists(staging):
        shutil.rmtree(staging)  # left by a call that was killed
    unpack.unpack(os.path.join(directory, archive.name), staging)
    source = os.path.join(staging, corpus.folder) if corpus.has_top_folder else staging
    if not os.path.isdir(source):
        raise errors.UserError(
            f"{archive.name}: folder {corpus.folder} is missing, expected it in the archive; "
            f"look at its files in {staging}."
        )
    _merge(source, target)
    shutil.rmtree(staging, ignore_errors=True)
    files.write_text(_marker(corpus, archive, directory), f"{archive.md5}  {archive.name}\n")


def _marker(corpus: archives.Corpus, archive: archives.Archive, directory: str) -> str:
    return os.path.join(directory, corpus.folder, f".{archive.name}.unpacked")


def _merge(source: str, target: str) -> None:
    """Moves a file or a directory; the contents of a directory that exists in the target are added to it."""
    if os.path.isdir(target) and os.path.isdir(source) and not os.path.islink(source):
        for name in sorted(os.listdir(source)):
            _merge(os.path.join(source, name), os.path.join(target, name))
    else:
        os.replace(source, target)
