import os
import re
import subprocess
import sys

import loopback_server
import paths
import pytest
import small_archives

from tfrecord_builder import download, errors
from tfrecord_builder.corpora.downloading import archives

ROOT = str(paths.ROOT)


def program(*arguments):
    command = [sys.executable, "-m", "tfrecord_builder.download", *arguments]
    environment = {**os.environ, "NO_PROXY": "*"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)


def test_the_error_for_a_mirror_without_the_archive_is_one_sentence(tmp_path):
    with loopback_server.serve({}) as server:
        done = program("--corpus=thchs30", f"--corpus_dir={tmp_path}", f"--mirror={server.address()}/")
    assert done.returncode == 1
    assert done.stdout == (
        "THCHS-30 (https://www.openslr.org/18): Apache License 2.0\ndata_thchs30.tgz: 6.5 GB\n"
    )
    address = server.address("/resources/18/data_thchs30.tgz")
    assert done.stderr == (
        f"error: {address}: the server returned status 404 (Not Found), expected the archive; "
        "open the address in a browser to see why, or pass another --mirror.\n"
    )


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs main in this process, on small corpora."""
    monkeypatch.setenv("NO_PROXY", "*")
    for name, corpus in (("thchs30", small_archives.X), ("librispeech", small_archives.L)):
        monkeypatch.setitem(archives.CORPORA, name, corpus)

    def run_main(**settings):
        download.main(download.DownloadConfig(**settings))
        return capsys.readouterr().out.splitlines()

    return run_main


def test_common_voice_cannot_be_downloaded(run, tmp_path):
    with pytest.raises(errors.UserError) as caught:
        run(corpus="common_voice", corpus_dir=str(tmp_path / "new"))
    assert str(caught.value) == (
        "Common Voice: Mozilla requires you to accept its terms on its website, so this program cannot "
        "download the corpus; download your language at "
        "https://commonvoice.mozilla.org/datasets, unpack it, and pass the "
        "directory of its .tsv files to build --corpus=common_voice."
    )
    assert not (tmp_path / "new").exists()


def test_aidatatang_was_withdrawn(run, tmp_path):
    problem = "its owner withdrew the corpus from openslr.org in January 2024, so this program cannot"
    remedy = f"if you have aidatatang_200zh.tgz, move it to {tmp_path} and run"
    with pytest.raises(errors.UserError, match=f"{problem} .*; {remedy}"):
        run(corpus="aidatatang_200zh", corpus_dir=str(tmp_path))


def test_prints_the_build_command(run, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    where = str(tmp_path / "my corpora")
    with loopback_server.serve(small_archives.FILES) as server:
        mirror = server.address("/")
        assert run(corpus="thchs30", corpus_dir=where, mirror=mirror) == [
            "X (https://www.openslr.org/7): free",
            "data_x.tgz: 0.0 GB",
            "python -m tfrecord_builder.build --flagfile=flags/thchs30/build.flags "
            f"--corpus_dir='{where}/data_x' --output_dir=DATA",
        ]
        assert run(corpus="thchs30", corpus_dir=where, mirror=mirror)[2] == "data_x.tgz: already unpacked"
        monkeypatch.chdir(tmp_path)
        assert run(corpus="librispeech", corpus_dir="here", parts=("dev",), mirror=mirror) == [
            "L (https://www.openslr.org/8): free",
            "dev.tar.gz: 0.0 GB",
            "python -m tfrecord_builder.build --corpus=librispeech --corpus_dir=here/L --output_dir=DATA",
        ]


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"corpus": None}, "--corpus is missing; pass it (corpus to download; one of: aidatatang_200zh, "),
        ({"corpus_dir": ""}, "--corpus_dir is missing; pass it (directory for the corpus; it is created"),
        ({"corpus": "thchs31"}, "flag --corpus=thchs31: expected one of aidatatang_200zh"),
        (
            {"mirror": "openslr.elda.org"},
            "--mirror is 'openslr.elda.org', expected a web address such as https://www.openslr.org; fix",
        ),
        ({"mirror": "file:///x"}, "--mirror is 'file:///x', expected a web address"),
        ({"mirror": "http://[::1"}, "--mirror is 'http://[::1', expected a web address"),
    ],
)
def test_wrong_settings(settings, message):
    with pytest.raises(errors.UserError, match=f"^{re.escape(message)}"):
        download.DownloadConfig(**{"corpus": "thchs30", "corpus_dir": "d", **settings})
