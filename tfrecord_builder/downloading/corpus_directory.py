"""The directory that corpora are downloaded to, and how far each archive has come.

data_thchs30.tgz.incomplete           is being downloaded; .incomplete.json tells from where
data_thchs30.tgz                      is whole and has its checksum, but is not unpacked
data_thchs30.incomplete/              is being unpacked
data_thchs30/                         the corpus
data_thchs30/.data_thchs30.tgz.unpacked    says that all of that archive is there; the archive is removed
data_thchs30.tgz.wrong                had another checksum
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence

from tfrecord_builder import errors, files
from tfrecord_builder.downloading import archives, checksum, fetch, sidecar, unpack


def choose(corpus: archives.Corpus, parts: Sequence[str]) -> list[archives.Archive]:
    """Gives the archives of the parts, all if none is named.

    Raises:
      UserError: there is no such part.
    """
    known = [archive.part for archive in corpus.archives]
    unknown = sorted(set(parts) - set(known))
    if unknown:
        raise errors.UserError(
            f"--parts: {', '.join(unknown)} is no part of {corpus.title}, expected some of "
            f"{', '.join(known)}; leave --parts out for all."
        )
    return [archive for archive in corpus.archives if not parts or archive.part in parts]


def download(
    corpus: archives.Corpus,
    directory: str,
    parts: Sequence[str] = (),
    mirror: str = archives.SITE,
    patience: fetch.Patience = fetch.PATIENCE,
) -> list[str]:
    """Downloads, checks and unpacks what is not there yet.

    Args:
      corpus: what to download.
      directory: where to; it is made if need be.
      parts: names of parts, none for all.
      mirror: the site, without a slash at its end, whose /resources/NUMBER/ARCHIVE to ask for.
      patience: when to give up.

    Returns:
      Names of the archives that were already there.

    Raises:
      UserError: it cannot be had; what came is kept, for the next call.
    """
    chosen = choose(corpus, parts)
    _check_offered(corpus, chosen, directory)
    with _reserved(directory):
        there = [archive for archive in chosen if os.path.exists(_marker(corpus, archive, directory))]
        if there != chosen:
            _check_ours(corpus, directory)
        for archive in chosen:
            path = os.path.join(directory, archive.name)
            if archive not in there:
                _obtain(archive, f"{mirror}/resources/{corpus.number}/{archive.name}", path, patience)
                _unpack(corpus, archive, directory)
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
    return [archive.name for archive in there]


@contextlib.contextmanager
def _reserved(directory: str) -> Iterator[None]:
    """Makes the directory and holds it against other downloads; a failure to write becomes a UserError."""
    try:
        os.makedirs(directory, exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            _lock(descriptor, directory)
            yield
        finally:
            os.close(descriptor)  # gives the lock back; so does any death of the process
    except OSError as error:
        raise errors.UserError(
            f"--corpus_dir: {error.filename or directory} cannot be written ({error.strerror or error}), "
            "expected room and permission; mend that and call again: what came is kept."
        ) from error


def _lock(descriptor: int, directory: str) -> None:
    if not files.take_lock(descriptor, directory):
        raise errors.UserError(
            f"--corpus_dir: another download is writing to {directory}, expected none; wait for it to end."
        )


def _check_offered(corpus: archives.Corpus, chosen: Sequence[archives.Archive], directory: str) -> None:
    """Raises UserError if a person must fetch an archive that is not here."""
    if not corpus.not_offered:
        return
    missing = [
        archive.name
        for archive in chosen
        if not os.path.exists(_marker(corpus, archive, directory))
        and not os.path.exists(os.path.join(directory, archive.name))
    ]
    if missing or not chosen:
        advice = f"put {', '.join(missing)} into {directory}, if you have it, and call again to unpack it."
        raise errors.UserError(
            f"{corpus.title}: {corpus.not_offered}, expected a download without a person; "
            f"{corpus.by_hand or advice}"
        )


def _check_ours(corpus: archives.Corpus, directory: str) -> None:
    """Raises UserError if the corpus was unpacked there by someone else."""
    target = os.path.join(directory, corpus.folder)
    signs = [_marker(corpus, archive, directory) for archive in corpus.archives]
    for archive in corpus.archives:
        path = os.path.join(directory, archive.name)
        signs += [path, f"{path}.incomplete"]
    if os.path.lexists(target) and not any(map(os.path.exists, signs)):
        raise errors.UserError(
            f"--corpus_dir: {target} is there already and was not downloaded by this program, expected no "
            "such name; build from it as it is, remove it, or choose another directory."
        )


def _obtain(archive: archives.Archive, address: str, path: str, patience: fetch.Patience) -> None:
    """Makes sure that the archive lies at the path, with the right checksum."""
    if os.path.exists(path):
        return checksum.check_md5(path, archive.md5, f"{path}.wrong")
    incomplete = f"{path}.incomplete"
    fetch.fetch(address, incomplete, archive.num_bytes, patience)
    sidecar.forget(incomplete)
    checksum.check_md5(incomplete, archive.md5, f"{path}.wrong")
    os.replace(incomplete, path)


def _unpack(corpus: archives.Corpus, archive: archives.Archive, directory: str) -> None:
    """Unpacks beside the corpus, and moves it into place when it is whole."""
    target = os.path.join(directory, corpus.folder)
    staging = f"{target}.incomplete"
    if os.path.exists(staging):
        shutil.rmtree(staging)  # of a call that was killed: nobody else names a directory so
    unpack.unpack(os.path.join(directory, archive.name), staging)
    found = os.path.join(staging, corpus.folder) if corpus.brings_folder else staging
    if not os.path.isdir(found):
        raise errors.UserError(
            f"{archive.name}: it holds no folder {corpus.folder}, expected one; "
            f"look at what it holds in {staging}."
        )
    _merge(found, target)
    shutil.rmtree(staging, ignore_errors=True)
    with files.writing(_marker(corpus, archive, directory)) as temporary:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(f"{archive.md5}  {archive.name}\n")


def _marker(corpus: archives.Corpus, archive: archives.Archive, directory: str) -> str:
    return os.path.join(directory, corpus.folder, f".{archive.name}.unpacked")


def _merge(source: str, target: str) -> None:
    """Moves a tree; where a folder is there already, what the tree has in it is moved in."""
    if os.path.isdir(target) and os.path.isdir(source) and not os.path.islink(source):
        for name in sorted(os.listdir(source)):
            _merge(os.path.join(source, name), os.path.join(target, name))
    else:
        os.replace(source, target)
