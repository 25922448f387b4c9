"""Downloads an openly licensed corpus, checks it and unpacks it, ready for `build`.

    python -m tfrecord_builder.download --corpus=thchs30 --corpus_dir=DIR
    python -m tfrecord_builder.download --corpus=librispeech --parts=dev-clean,test-clean --corpus_dir=DIR

DIR then holds the corpus (data_thchs30, LibriSpeech); the last line that is printed is the command to build
from it. Each archive is removed once it is unpacked. While that goes on there must be room for about three
times the size that is shown first.

A download that broke off goes on where it stopped when it is called again in the same way; one that is done
does nothing. An archive that you have already can be put into DIR: it is checked, unpacked and removed like
one that was downloaded. Every archive must have the MD5 sum that openslr.org publishes.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import urllib.parse
from typing import Optional

from tfrecord_builder import config_flags, errors
from tfrecord_builder.downloading import archives, corpus_directory


@dataclasses.dataclass(frozen=True)
class DownloadConfig:
    """What to download, and where to."""

    corpus: Optional[str] = config_flags.setting(None, "what to download", choices=sorted(archives.CORPORA))
    corpus_dir: str = config_flags.setting("", "directory to put the corpus into; it is made if need be")
    parts: tuple[str, ...] = config_flags.setting(
        (), "archives to download, without their .tar.gz, with commas; all if not given"
    )
    mirror: str = config_flags.setting(
        archives.SITE,
        "site to ask; the mirrors of openslr.org are https://openslr.trmal.net, https://openslr.elda.org "
        "and https://openslr.magicdatatech.com",
    )

    def __post_init__(self):
        config_flags.validate(self)
        if self.corpus is None:
            names = ", ".join(sorted(archives.CORPORA))
            raise errors.UserError(f"--corpus: it is missing, expected one of {names}; pass --corpus=NAME.")
        if not self.corpus_dir:
            raise errors.UserError(
                "--corpus_dir: it is missing, expected a directory; pass --corpus_dir=DIR."
            )
        if not _is_site(self.mirror):
            raise errors.UserError(
                f"--mirror: it is {self.mirror!r}, expected a site such as {archives.SITE}; leave it out."
            )


def define_flags() -> None:
    """Defines a flag for every field of the config."""
    config_flags.define(DownloadConfig)


def main(argv: list[str]) -> None:
    """Downloads what the flags say, and tells what to do next."""
    del argv
    config = config_flags.from_flags(DownloadConfig)
    corpus = archives.CORPORA[config.corpus]
    print("\n".join(_describe(corpus, config.parts)), flush=True)
    there = corpus_directory.download(corpus, config.corpus_dir, config.parts, config.mirror.rstrip("/"))
    for name in there:
        print(f"{name}: already there")
    print(_build_command(config.corpus, os.path.join(config.corpus_dir, corpus.folder)))


def _is_site(address: str) -> bool:
    try:
        site = urllib.parse.urlsplit(address)
    except ValueError:  # half an IPv6 address
        return False
    return site.scheme in ("http", "https") and bool(site.netloc)


def _describe(corpus: archives.Corpus, parts: tuple[str, ...]) -> list[str]:
    """Gives the licence, and a line for each archive."""
    chosen = corpus_directory.choose(corpus, parts)
    page = "" if corpus.number is None else f" ({archives.SITE}/{corpus.number})"
    sizes = [f"{archive.name}: {archive.num_bytes / 1e9:.1f} GB" for archive in chosen]
    return [f"{corpus.title}{page}: {corpus.licence}", *sizes]


def _build_command(name: str, corpus_dir: str) -> str:
    flagfile = os.path.join("flags", name, "build.flags")
    which = f"--flagfile={flagfile}" if os.path.exists(flagfile) else f"--corpus={name}"
    return (
        f"python -m tfrecord_builder.build {which} --corpus_dir={shlex.quote(corpus_dir)} --output_dir=DATA"
    )


if __name__ == "__main__":
    errors.run_program(main, define_flags)
