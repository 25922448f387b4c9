import functools
import os
import pathlib
import signal
import subprocess
import sys
import time

import apache_beam as beam
import corpus_trees
import paths
import pytest
import small_corpora
import small_shards

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.building import beam_pipeline, build_config, builder, shard_writer, sharding
from tfrecord_builder.corpora import registry
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import labelling
from tfrecord_builder.output import staging
from tfrecord_builder.records import items

ROOT = paths.ROOT
LABELS = labelling.Labels("你好", ("ni3", "hao3"), ("你", "好"))


def _items(directory, num_utterances=6):
    found = []
    for i in range(num_utterances):
        audio = small_corpora.write_audio(directory / f"{i}.wav", small_corpora.tone(0.4, 200 + 90 * i))
        utterance = manifest.Utterance(f"u{i}", audio, "s", "", "", "train")
        found.append(items.Item(utterance, LABELS, items.file_signature(audio)))
    return found


def _settings():
    return sharding.Settings(
        small_corpora.make_vocabularies(LABELS), frontend.FrontendConfig(), "float16", 30.0
    )


def _writer(directory):
    return shard_writer.RecordWriter(str(directory), _settings())


def _write(shards, directory, runner="DirectRunner", beam_flags=()):
    return beam_pipeline.write_shards(shards, _writer(directory), "building", runner, beam_flags)


def _contents(directory):
    return {name: (directory / name).read_bytes() for name in sorted(os.listdir(directory))}


def test_every_published_file_has_the_bytes_of_the_ordinary_build(tmp_path):
    corpus = small_corpora.make_manifest_corpus(tmp_path / "in", num_train=12, num_dev=3)
    small_corpora.write_audio(tmp_path / "in" / "audio" / "u03.wav", 0 * small_corpora.tone(0.5))
    os.remove(tmp_path / "in" / "audio" / "u05.wav")
    for name, runner in (("processes", ""), ("beam", "DirectRunner")):
        config = build_config.BuildConfig(
            corpus_dir=(corpus,),
            output_dir=str(tmp_path / name),
            num_shards=3,
            num_workers=None if runner else 1,
            max_rejected=0.5,
            runner=runner,
        )
        assert builder.build(config, frontend.FrontendConfig()).num_rejected == 2
    expected = _contents(tmp_path / "processes")
    assert len(expected) == 18  # 2 splits x 3 shards with their items, and six files
    assert _contents(tmp_path / "beam") == expected


PROCESSES = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")


def _build(output_dir, corpus_dirs, corpus="manifest", **options):
    """Builds into a directory; returns its files."""
    dirs = tuple(map(str, corpus_dirs))
    usual = dict(corpus=corpus, corpus_dir=dirs, output_dir=str(output_dir), num_shards=2)
    builder.build(build_config.BuildConfig(**usual, **options), frontend.FrontendConfig())
    return _contents(output_dir)


def _make_two_corpora(directory):
    return [small_corpora.make_manifest_corpus(directory / name, 4, 1, prefix=name) for name in ("b", "a")]


def _refuse_to_list(corpus_dir):
    raise AssertionError(corpus_dir)


@pytest.mark.long
def test_workers_list_the_corpora_and_the_launcher_reads_none(tmp_path, monkeypatch):
    corpora = _make_two_corpora(tmp_path / "in")
    expected = _build(tmp_path / "local", corpora, num_workers=1, dev_fraction=0.2)
    monkeypatch.setitem(registry.CORPORA, "manifest", _refuse_to_list)  # in this process alone
    with pytest.raises(AssertionError):
        _build(tmp_path / "refused", corpora, num_workers=1)
    options = dict(runner="DirectRunner", beam_flags=PROCESSES, dev_fraction=0.2)
    assert _build(tmp_path / "beam", corpora, **options) == expected


def _break(corpora, problem):
    if problem == "a missing column":
        small_corpora.write_text(os.path.join(corpora[1], "manifest.tsv"), "id\taudio\n")
    elif problem == "a missing directory":
        corpora[1] += "-missing"
    elif problem == "a duplicate directory":
        corpora[1] = corpora[0]
    else:  # of both directories; and an error that comes later
        names = {"a duplicate id": ("x", "x"), "an empty id": ("x", "")}[problem]
        for corpus, name in zip(corpora, names):
            with open(os.path.join(corpus, "manifest.tsv"), "a", encoding="utf-8") as file:
                file.write(f"{name}\taudio/a00.wav\ts\t你好\t\ttrain\n")
        corpora.append(corpora[0] + "-missing")


@pytest.mark.parametrize(
    "problem",
    ["a missing column", "a missing directory", "a duplicate directory", "a duplicate id", "an empty id"],
)
def test_the_error_of_a_corpus_is_the_sentence_of_the_ordinary_build(tmp_path, problem):
    corpora = _make_two_corpora(tmp_path / "in")
    _break(corpora, problem)
    said = []
    for options in (dict(num_workers=1), dict(runner="DirectRunner")):
        with pytest.raises(errors.UserError) as caught:
            _build(tmp_path / "out", corpora, **options)
        said.append(str(caught.value))
    assert said[0] == said[1] and "DirectRunner" not in said[0]
    assert not staging.is_complete(str(tmp_path / "out"))


def test_the_corpus_is_listed_again_by_the_next_build(tmp_path):
    corpora = _make_two_corpora(tmp_path / "in")
    _break(corpora, "an empty id")
    with pytest.raises(errors.UserError, match="line 7: id or audio is empty; fill in both"):
        _build(tmp_path / "out", corpora, runner="DirectRunner")
    corpora = _make_two_corpora(tmp_path / "in")
    expected = _build(tmp_path / "local", corpora, num_workers=1)
    assert _build(tmp_path / "out", corpora, runner="DirectRunner") == expected


def test_a_list_that_is_damaged_is_refused(tmp_path, monkeypatch):
    write_shards = beam_pipeline.write_shards

    def damage(shards, writer, title, **options):
        written = write_shards(shards, writer, title, **options)
        path = os.path.join(writer.directory, shards[-1].file)
        content = pathlib.Path(path).read_bytes()
        pathlib.Path(path).write_bytes(content.replace(b"a00", b"a\t0"))
        return written

    monkeypatch.setattr(beam_pipeline, "write_shards", damage)
    with pytest.raises(errors.UserError, match="00001.rows: sha256 is .*, expected .*; check the disk or"):
        _build(tmp_path / "out", _make_two_corpora(tmp_path / "in"), runner="DirectRunner")


@pytest.mark.long
@pytest.mark.parametrize("beam_flags", [(), PROCESSES])
def test_a_warning_of_a_reader_is_told_once(tmp_path, caplog, beam_flags):
    corpus_trees.make_lhotse_corpus(tmp_path / "in")
    for name in ("musan_cuts.jsonl.gz", "noise_cuts.jsonl.gz"):
        corpus_trees.write_gzip(tmp_path / "in" / name, "")
    _build(
        tmp_path / "out",
        [tmp_path / "in"],
        "lhotse",
        runner="DirectRunner",
        beam_flags=beam_flags,
        max_rejected=1.0,
    )
    assert caplog.text.count("not read: musan_cuts.jsonl.gz, noise_cuts.jsonl.gz") == 1


def test_an_error_of_a_worker_is_told_and_the_build_continues_later(tmp_path):
    found = _items(tmp_path / "audio", 2)
    shards = small_shards.write(found, 1, tmp_path)
    changed = found[0].utterance.audio
    times = os.stat(changed)
    os.utime(changed, ns=(0, 0))
    with pytest.raises(errors.UserError, match=f"{changed}: the recording has changed since the corpus was"):
        _write(shards, tmp_path)
    assert not (tmp_path / shards[0].file).exists()
    os.utime(changed, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [each.num_records for each in _write(shards, tmp_path)] == [2]


def test_nothing_runs_when_all_is_there(tmp_path):
    shards = small_shards.write(_items(tmp_path, 2), 2, tmp_path)
    expected = [_writer(tmp_path).write(each, lambda done, rejected: None) for each in shards]
    assert _write(shards, tmp_path, runner="NoRunner") == expected


def test_counts_for_the_runner(tmp_path):
    found = _items(tmp_path, 3)
    small_corpora.write_audio(found[1].utterance.audio, 0 * small_corpora.tone(0.4))
    found[1] = items.Item(found[1].utterance, LABELS, items.file_signature(found[1].utterance.audio))
    (waiting,) = small_shards.write(found, 1, tmp_path)
    pipeline = beam_pipeline._make_pipeline("DirectRunner", ())
    shards = pipeline | beam.Create([waiting])
    shards | beam.Map(functools.partial(beam_pipeline._write, _writer(tmp_path)))
    result = pipeline.run()
    result.wait_until_finish()
    counted = {each.key.metric.name: each.committed for each in result.metrics().query()["counters"]}
    assert (counted["utterances"], counted["rejected"]) == (3, 1)


def test_a_finished_shard_is_not_written_again_by_a_worker(tmp_path):
    (waiting,) = small_shards.write(_items(tmp_path, 2), 1, tmp_path)
    _write([waiting], tmp_path)
    before = os.stat(tmp_path / waiting.file)
    beam_pipeline._write(_writer(tmp_path), waiting)
    assert os.stat(tmp_path / waiting.file) == before


def test_a_shard_that_does_not_come_is_missed(tmp_path, monkeypatch):
    shards = small_shards.write(_items(tmp_path, 1), 1, tmp_path)
    monkeypatch.setattr(beam_pipeline, "_write", lambda *_: None)
    with pytest.raises(
        errors.UserError, match="the pipeline ended, but train-00000-of-00001.tfrecord is missing"
    ):
        _write(shards, tmp_path)


def test_a_bug_in_a_worker_is_one_sentence_below_the_traceback_that_beam_logs(tmp_path, monkeypatch, caplog):
    shards = small_shards.write(_items(tmp_path, 1), 1, tmp_path)
    monkeypatch.setattr(beam_pipeline, "_write", lambda *_: [][1])
    with pytest.raises(errors.UserError, match="the pipeline failed .list index out of range .while running"):
        _write(shards, tmp_path)
    assert "Traceback" in caplog.text


def test_of_a_worker_s_traceback_the_last_line_is_told():
    error = RuntimeError("from worker: Traceback (most recent call last):\n  File x\nKeyError: 'y'\n")
    assert beam_pipeline._one_line(error) == "KeyError: 'y'"
    assert beam_pipeline._one_line(ValueError("two\n lines")) == "two lines"
    assert beam_pipeline._one_line(TimeoutError()) == "TimeoutError"


def test_a_runner_that_nobody_serves(tmp_path):
    shards = small_shards.write(_items(tmp_path, 1), 1, tmp_path)
    flags = ("--job_endpoint=127.0.0.1:9", "--job_server_timeout=1")
    with pytest.raises(errors.UserError, match="--runner=PortableRunner: the pipeline failed .FutureTimeout"):
        _write(shards, tmp_path, "PortableRunner", flags)


@pytest.mark.parametrize(
    "runner, flags, said",
    [
        (
            "DirectRunner",
            ["--direct_num_worker=2"],
            "no flag --direct_num_worker=2;",
        ),
        (
            "DirectRunner",
            ["--unheard_of"],
            "Apache Beam has no flag --unheard_of;",
        ),
        ("DirectRunner", ["--direct_num_workers=two"], "--beam_flags: .*invalid int value: 'two'; see the"),
        (
            "NoRunner",
            [],
            "--runner=NoRunner: Apache Beam cannot use it .Unexpected pipeline runner: NoRunner",
        ),
        (
            "no_module.Runner",
            [],
            "--runner=no_module.Runner: Apache Beam cannot use it .No module named 'no_module'",
        ),
        (
            "apache_beam.Runner",
            [],
            "--runner=apache_beam.Runner: Apache Beam cannot use it .*has no attribute",
        ),
        ("DataflowRunner", [], "--runner=DataflowRunner: Apache Beam cannot use it .*option: region"),
    ],
)
def test_flags_that_beam_does_not_take(runner, flags, said):
    with pytest.raises(errors.UserError, match=said) as caught:
        beam_pipeline.check(runner, flags)
    assert "\n" not in str(caught.value)


def test_flags_that_beam_takes():
    beam_pipeline.check("DirectRunner", ["--direct_num_workers=2", "--direct_running_mode=multi_processing"])
    beam_pipeline.check("FlinkRunner", ["--flink_master=host:8081", "--known_to_the_job_server_alone=1"])


def test_without_beam(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(errors.UserError, match=r'pip install "estimator-asr\[beam\]", or pip install ap'):
        beam_pipeline.check("DirectRunner", [])


def test_flags_of_the_build_that_do_not_fit():
    usual = dict(corpus_dir=("in",), output_dir="out")
    with pytest.raises(errors.UserError, match="--beam_flags: --runner is missing; pass"):
        build_config.BuildConfig(beam_flags=("--x",), **usual)
    with pytest.raises(errors.UserError, match="--num_workers, --runner: both are given, expected one; D"):
        build_config.BuildConfig(runner="DirectRunner", num_workers=2, **usual)


def _start(corpus, output_dir, *flags):
    """Starts a build of several chunks; a corpus of thousands would have them without the change."""
    code = (
        "import runpy; from tfrecord_builder.building import chunks; chunks._MIN_UTTERANCES = 300;"
        "runpy.run_module('tfrecord_builder.build', run_name='__main__')"
    )
    options = [f"--corpus_dir={corpus}", f"--output_dir={output_dir}", "--num_shards=40", *flags]
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return subprocess.Popen([sys.executable, "-c", code, *options], cwd=ROOT, **pipes)


def _list_workers(process):
    """Returns the process ids of Beam's workers below a process."""
    found = subprocess.run(
        ["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in found.stdout.splitlines()]
    shells = {pid for pid, parent, *_ in rows if int(parent) == process.pid}
    return [int(pid) for pid, parent, args in rows if parent in shells and "sdk_worker_main" in args]


def _kill_a_worker(process, output_dir, pattern):
    """Kills a worker process when a file of the pattern is there."""
    deadline = time.monotonic() + 100
    while not list((output_dir / ".build").glob(pattern)):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.005)
    os.kill(_list_workers(process)[-1], signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["labels/*.labelled.json", "*.tfrecord.json"])
def test_a_worker_process_is_killed_and_the_build_continues_to_the_same_bytes(tmp_path, pattern):
    small_corpora.make_manifest_corpus(tmp_path / "in", num_train=8, num_dev=0)
    lines = ["id\taudio\ttext\tsplit"]
    lines += [f"u{i}\taudio/u0{i % 8}.wav\t{'今天天气很好' * (i % 11 > 0)}\t" for i in range(4000)]
    small_corpora.write_text(tmp_path / "in" / "manifest.tsv", "\n".join(lines))
    usual = ["--max_rejected=0.5", "--dev_fraction=0.1"]
    local = _start(tmp_path / "in", tmp_path / "local", *usual, "--num_workers=1")
    assert local.wait(timeout=100) == 0, local.communicate()
    processes = "--direct_num_workers=2,--direct_running_mode=multi_processing"
    beam_flags = [*usual, "--runner=DirectRunner", f"--beam_flags={processes}"]
    killed = _start(tmp_path / "in", tmp_path / "out", *beam_flags)
    _kill_a_worker(killed, tmp_path / "out", pattern)
    _, said = killed.communicate(timeout=60)
    assert killed.returncode == 1
    assert "error: --runner=DirectRunner: the pipeline failed (Worker subprocess exited with" in said
    again = _start(tmp_path / "in", tmp_path / "out", *beam_flags)
    again.communicate(timeout=200)
    assert again.returncode == 0
    assert _contents(tmp_path / "out") == _contents(tmp_path / "local")


@pytest.mark.slow
def test_the_program(tmp_path):
    corpus = small_corpora.make_manifest_corpus(tmp_path / "in", num_train=3, num_dev=1)
    command = [sys.executable, "-m", "tfrecord_builder.build", f"--corpus_dir={corpus}"]
    options = [f"--output_dir={tmp_path / 'out'}", "--runner=DirectRunner"]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "Prism" not in done.stderr
    assert done.stdout.splitlines()[1].startswith("train: 3 utterances")
