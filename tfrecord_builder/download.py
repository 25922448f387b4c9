"""Downloads, verifies and unpacks an open corpus.

    python -m tfrecord_builder.download --corpus=thchs30 --corpus_dir=DIR
    python -m tfrecord_builder.download --corpus=librispeech --parts=dev-clean,test-clean --corpus_dir=DIR

DIR then contains the corpus (data_thchs30, LibriSpeech); the last line of the output is the command that
builds records from it. Each archive is removed after it has been unpacked; until then, the download needs
about three times the printed size in free disk space.

An interrupted download continues when the same command is run again; a complete download is not repeated. If
you already have an archive, put it into DIR: it is verified, unpacked and removed like the other archives.
Every archive must have the MD5 sum that openslr.org publishes.
"""

from __future__ import annotations

from tfrecord_builder.program import interrupts

interrupts.exit_at_once(__name__)

import dataclasses
import os
import shlex
import urllib.parse
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.corpora.downloading import archives, unpacking
from tfrecord_builder.program import config_flags, program


@dataclasses.dataclass(frozen=True)
class DownloadConfig(config_flags.Checked):
    """The corpus to download, and the directory to put it in."""

    corpus: Optional[str] = config_flags.setting(
        None, "corpus to download", choices=sorted(archives.CORPORA), required=True
    )
    corpus_dir: str = config_flags.setting(
        "", "directory for the corpus; it is created if it does not exist", required=True, local=True
    )
    parts: tuple[str, ...] = config_flags.setting(
        (), "comma-separated names of the archives to download, without .tar.gz; default: all archives"
    )
    mirror: str = config_flags.setting(
        archives.SITE,
        "site to download from; openslr.org has the mirrors https://openslr.trmal.net, "
        "https://openslr.elda.org and https://openslr.magicdatatech.com",
    )

    def __post_init__(self):
        super().__post_init__()
        if not _is_site(self.mirror):
            raise errors.UserError(
                f"--mirror is {self.mirror!r}, expected a web address such as {archives.SITE}; fix the "
                "address or leave --mirror out."
            )


def main(config: DownloadConfig) -> None:
    """Downloads the corpus and prints the build command."""
    corpus = archives.CORPORA[config.corpus]
    page = "" if corpus.number is None else f" ({archives.SITE}/{corpus.number})"
    sizes = (
        f"\n{archive.name}: {archive.num_bytes / 1e9:.1f} GB"
        for archive in unpacking.select_archives(corpus, config.parts)
    )
    print(f"{corpus.title}{page}: {corpus.licence}{''.join(sizes)}", flush=True)
    mirror = config.mirror.rstrip("/")
    for name in unpacking.download(corpus, config.corpus_dir, config.parts, mirror):
        print(f"{name}: already unpacked")
    flagfile = os.path.join("flags", config.corpus, "build.flags")
    source = f"--flagfile={flagfile}" if os.path.exists(flagfile) else f"--corpus={config.corpus}"
    corpus_dir = shlex.quote(os.path.join(config.corpus_dir, corpus.folder))
    print(f"python -m tfrecord_builder.build {source} --corpus_dir={corpus_dir} --output_dir=DATA")


def _is_site(address: str) -> bool:
    try:
        site = urllib.parse.urlsplit(address)
    except ValueError:  # raised, for example, by an incomplete IPv6 address
        return False
    return site.scheme in ("http", "https") and bool(site.netloc)


if __name__ == "__main__":
    program.run(main, DownloadConfig)
