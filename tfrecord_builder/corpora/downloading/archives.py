"""Corpora on openslr.org: their licences and archives, with the size and MD5 sum of each archive.

Licences and MD5 sums are published by openslr.org, in resources/<number>/info.txt and checksum.md5 at
https://github.com/openslr-org/openslr (commit 65225c4). Sizes are the values that the download scripts of
Kaldi (egs/*/s5/local/*download_and_untar.sh) and ESPnet (egs2/primewords_chinese) check; for AISHELL-3, only
three digits of the size are published.
"""

from __future__ import annotations

import dataclasses
from typing import Optional

SITE = "https://www.openslr.org"
_APACHE = "Apache License 2.0"
_NON_COMMERCIAL = "CC BY-NC-ND 4.0 (no commercial use)"


@dataclasses.dataclass(frozen=True)
class Archive:
    """A .tar.gz archive of a corpus."""

    name: str
    num_bytes: int  # accurate to 1 %
    md5: str  # hex digest

    @property
    def part(self) -> str:
        """The archive's name in --parts: the file name without the extension."""
        return self.name.split(".")[0]


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A corpus on openslr.org, or instructions for obtaining one that this program cannot download."""

    title: str  # name of the corpus, as its authors write it
    number: Optional[int]  # N in openslr.org/N; None if the corpus is published elsewhere
    licence: str
    folder: str  # the directory below --corpus_dir that `build` reads
    archives: tuple[Archive, ...]
    has_top_folder: bool = True  # True if archives contain `folder`, False if they contain only its contents
    unavailable: str = ""  # the reason why this program cannot download the corpus
    instructions: str = ""  # instructions for obtaining the corpus manually


# Columns: corpus number, archive name, size in bytes, MD5 sum.
_ARCHIVES = """
12 dev-clean.tar.gz                 337926286 42e2234ba48799c1f50f24a7926300a1
12 dev-other.tar.gz                 314305928 c8d0bcc9cca99d4f8b62fcc847357931
12 test-clean.tar.gz                346663984 32fa31d27d2e1cad72775fee3f4849a9
12 test-other.tar.gz                328757843 fb5a50374b501bb3bac4815ee91d3135
12 train-clean-100.tar.gz          6387309499 2a93770f6d5c6c964bc36631d331a522
12 train-clean-360.tar.gz         23049477885 c0e676e450a7ff2f54aeade5171606fa
12 train-other-500.tar.gz         30593501606 d1a0fd59409feb2c614ce4d30c387708
18 data_thchs30.tgz                6453425169 2d2252bde5c8429929e1841d4cb95e90
33 data_aishell.tgz               15582913665 2f494334227864a8a8fec932999db9d8
38 ST-CMDS-20170001_1-OS.tar.gz    8231662593 c28ddfc8e4ebe48949bc79a0c23c5545
47 primewords_md_2018_set1.tar.gz  9057625192 c7b9000fd2828256dca4deae107ff96e
62 aidatatang_200zh.tgz           18756983399 6e0f4f39cd5f667a7ee53c397c8d0949
68 dev_set.tar.gz                  1035537823 114a9333a9b5039b47bdbc0dd812adde
68 test_set.tar.gz                 2201936013 8bf65c183ffe927288dcd8f23b7a576e
68 train_set.tar.gz               52627842921 3a9ad969fc4518731a0faf1899b3d759
93 data_aishell3.tgz              19060000000 6833e9dcb47709d4e153e2f669e5ddc8
"""


def _archives(number: int) -> tuple[Archive, ...]:
    rows = [line.split() for line in _ARCHIVES.strip().splitlines()]
    return tuple(Archive(name, int(size), md5) for corpus, name, size, md5 in rows if corpus == str(number))


CORPORA = {
    "aidatatang_200zh": Corpus(
        "aidatatang_200zh",
        62,
        _NON_COMMERCIAL,
        "aidatatang_200zh",
        _archives(62),
        # stated in openslr's resources/62/about.html since commit 4689332 (2 January 2024)
        unavailable="its owner withdrew the corpus from openslr.org in January 2024",
    ),
    "aishell1": Corpus("AISHELL-1", 33, _APACHE, "data_aishell", _archives(33)),
    "aishell3": Corpus("AISHELL-3", 93, _APACHE, "data_aishell3", _archives(93), has_top_folder=False),
    "common_voice": Corpus(
        "Common Voice",
        None,
        "CC0 1.0",
        "",
        (),
        unavailable="Mozilla requires you to accept its terms on its website",
        instructions="download your language at https://commonvoice.mozilla.org/datasets, unpack it, and "
        "pass the directory of its .tsv files to build --corpus=common_voice.",
    ),
    "librispeech": Corpus("LibriSpeech", 12, "CC BY 4.0", "LibriSpeech", _archives(12)),
    "magicdata": Corpus(
        "MAGICDATA Mandarin Chinese Read Speech Corpus",
        68,
        _NON_COMMERCIAL,
        "magicdata",
        _archives(68),
        has_top_folder=False,
    ),
    "primewords": Corpus(
        "Primewords Chinese Corpus Set 1", 47, _NON_COMMERCIAL, "primewords_md_2018_set1", _archives(47)
    ),
    "st_cmds": Corpus(
        "Free ST Chinese Mandarin Corpus", 38, _NON_COMMERCIAL, "ST-CMDS-20170001_1-OS", _archives(38)
    ),
    "thchs30": Corpus("THCHS-30", 18, _APACHE, "data_thchs30", _archives(18)),
}
