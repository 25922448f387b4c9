"""Builds on clusters that each test starts: the bytes of the local build, whatever is killed."""

import importlib.util
import os
import subprocess
import sys
import time

import clusters
import paths
import pytest
import small_corpora

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus of 4,000 utterances, of which one in eleven has no transcript."""
    directory = tmp_path_factory.mktemp("corpus")
    small_corpora.make_manifest_corpus(directory, num_train=8, num_dev=0)
    lines = ["id\taudio\ttext\tsplit"]
    lines += [f"u{i}\taudio/u0{i % 8}.wav\t{'今天天气很好' * (i % 11 > 0)}\t" for i in range(4000)]
    small_corpora.write_text(directory / "manifest.tsv", "\n".join(lines))
    return directory


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory):
    """The files of the local build."""
    directory = tmp_path_factory.mktemp("local") / "out"
    process = _start(corpus, directory, "--num_workers=1")
    assert process.wait(timeout=200) == 0, process.communicate()
    return _contents(directory)


@pytest.fixture(params=["spark", "ray"])
def cluster(request, tmp_path):
    package = {"spark": "pyspark", "ray": "ray"}[request.param]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    if request.param == "spark" and not clusters.has_java():
        pytest.skip("Spark needs Java 17, and no java is found")
    with getattr(clusters, request.param)(tmp_path) as opened:
        yield opened


def _contents(directory):
    return {name: (directory / name).read_bytes() for name in sorted(os.listdir(directory))}


def _start(corpus, output_dir, *flags):
    """Starts a build of several chunks; a corpus of thousands would have them without the change."""
    code = (
        "import runpy; from tfrecord_builder.building import chunks; chunks._MIN_UTTERANCES = 300;"
        "runpy.run_module('tfrecord_builder.build', run_name='__main__')"
    )
    options = [f"--corpus_dir={corpus}", f"--output_dir={output_dir}", "--num_shards=40"]
    options += ["--max_rejected=0.5", "--dev_fraction=0.1", *flags]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-c", code, *options]
    return subprocess.Popen(command, cwd=paths.ROOT, env=environment, **pipes)


def _wait_for_shards(process, output_dir, pattern):
    """Waits until a build has written a file of the pattern."""
    deadline = time.monotonic() + 100
    while not list((output_dir / ".build").glob(pattern)):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.01)


def test_the_bytes_are_those_of_the_local_build(cluster, corpus, expected, tmp_path):
    process = _start(corpus, tmp_path / "out", f"--runner={cluster.runner}")
    _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert _contents(tmp_path / "out") == expected


@pytest.mark.parametrize("pattern", ["labels/*.labelled.json", "*.tfrecord.json"])
def test_a_killed_worker_costs_nothing_but_time(cluster, corpus, expected, tmp_path, pattern):
    process = _start(corpus, tmp_path / "out", f"--runner={cluster.runner}")
    _wait_for_shards(process, tmp_path / "out", pattern)
    cluster.kill(2)
    _, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    assert _contents(tmp_path / "out") == expected


def test_a_killed_scheduler_is_a_sentence_and_the_build_continues_without(
    cluster, corpus, expected, tmp_path
):
    process = _start(corpus, tmp_path / "out", f"--runner={cluster.runner}")
    _wait_for_shards(process, tmp_path / "out", "*.tfrecord.json")
    cluster.kill(0)
    _, said = process.communicate(timeout=120)
    if process.returncode:  # Spark's executors may finish what they have
        assert "the scheduler was lost" in said
        process = _start(corpus, tmp_path / "out", "--num_workers=1")
        assert process.wait(timeout=200) == 0, process.communicate()
    assert _contents(tmp_path / "out") == expected
