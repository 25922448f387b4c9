import re

from tfrecord_builder.corpora.downloading import archives

OFFERED = {name: corpus for name, corpus in archives.CORPORA.items() if not corpus.unavailable}


def test_the_openly_licensed_corpora_have_their_openslr_number():
    numbers = {"aishell1": 33, "aishell3": 93, "librispeech": 12, "magicdata": 68, "primewords": 47}
    assert {name: each.number for name, each in OFFERED.items()} == {**numbers, "st_cmds": 38, "thchs30": 18}
    assert sorted(set(archives.CORPORA) - set(OFFERED)) == ["aidatatang_200zh", "common_voice"]


def test_every_archive_has_its_own_size_and_md5_sum():
    every = [archive for corpus in archives.CORPORA.values() for archive in corpus.archives]
    assert all(re.fullmatch(r"[0-9a-f]{32}", archive.md5) for archive in every)
    assert len({archive.md5 for archive in every}) == len({archive.num_bytes for archive in every}) == 16
    assert all(10**8 < archive.num_bytes < 10**11 for archive in every)
    assert all(archive.name.endswith((".tar.gz", ".tgz")) for archive in every)


def test_parts_are_file_names_without_the_extension():
    parts = [archive.part for archive in archives.CORPORA["librispeech"].archives]
    assert parts[:2] == ["dev-clean", "dev-other"] and len(parts) == 7
    assert archives.CORPORA["st_cmds"].archives[0].part == "ST-CMDS-20170001_1-OS"


def test_every_offered_corpus_has_a_page_and_a_folder():
    for corpus in OFFERED.values():
        assert corpus.number and corpus.folder and corpus.licence and corpus.archives
