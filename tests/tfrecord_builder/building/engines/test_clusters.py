"""Programs write the same bytes on clusters as on the local engine, even if workers are killed."""

import os
import shutil
import subprocess
import sys
import time

import built_data
import clusters
import numpy as np
import paths
import pytest
import s3_server
import small_corpora
import small_whisper
import soundfile
import tiny_models

from estimator_asr.pretrained import encoder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
_started = []  # processes to kill if a test fails


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A corpus of 1,200 utterances, of which one in eleven has no transcript."""
    directory = tmp_path_factory.mktemp("corpus")
    small_corpora.make_manifest_corpus(directory, num_train=8, num_dev=0)
    lines = ["id\taudio\ttext\tsplit"]
    lines += [f"u{i}\taudio/u0{i % 8}.wav\t{'今天天气很好' * (i % 11 > 0)}\t" for i in range(1200)]
    small_corpora.write_text(directory / "manifest.tsv", "\n".join(lines))
    return directory


@pytest.fixture(scope="module")
def expected(corpus, tmp_path_factory):
    """The files of the local build, as {name: content}."""
    directory = tmp_path_factory.mktemp("local") / "out"
    assert _end(_start(corpus, directory, "--num_workers=2"))[0] == 0
    return built_data.contents(directory)


@pytest.fixture(params=["spark", "ray"])
def cluster(request, tmp_path):
    with clusters.start(request.param, tmp_path) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _end_programs():
    """Kills programs that a failed test has left running."""
    yield
    while _started:
        with _started.pop() as process:
            process.kill()


def _start(corpus, output_dir, *flags):
    """Starts a build with several chunks, which gives up on a lost scheduler after three seconds."""
    code = (
        "import runpy; from tfrecord_builder.building import listing; listing._LIST_SIZE = 400;"
        "from tfrecord_builder.building.engines import dispatch; dispatch.LOST_SECONDS = 3;"
        "runpy.run_module('tfrecord_builder.build', run_name='__main__')"
    )
    options = [f"--corpus_dir={corpus}", f"--output_dir={output_dir}", "--num_shards=12"]
    return _start_program("-c", code, *options, "--max_rejected=0.5", "--dev_fraction=0.1", *flags)


def _start_program(*arguments):
    environment = {**os.environ, **clusters.ENVIRONMENT}
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    _started.append(subprocess.Popen([sys.executable, *arguments], cwd=paths.ROOT, env=environment, **pipes))
    return _started[-1]


def _end(process):
    """Waits for a program to end; returns its exit code and its output."""
    said = process.communicate(timeout=200)[0]
    return process.returncode, said


def _wait_for(process, directory, count, pattern=".build/*.tfrecord.json"):
    """Waits until a program has finished `count` units."""
    while len(list(directory.glob(pattern))) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_lost_workers_do_not_change_the_output(cluster, corpus, expected, tmp_path):
    cluster.start_worker()
    cluster.start_worker()
    process = _start(corpus, tmp_path / "out", f"--runner={cluster.runner}")
    _wait_for(process, tmp_path / "out", 2)
    cluster.kill(cluster.processes[1])
    _wait_for(process, tmp_path / "out", 5)
    cluster.kill(cluster.processes[2])
    cluster.start_worker()
    code, said = _end(process)
    assert code == 0, said
    assert built_data.contents(tmp_path / "out") == expected


def test_a_lost_scheduler_is_reported_and_the_same_command_continues(cluster, corpus, expected, tmp_path):
    cluster.start_worker()
    command = corpus, tmp_path / "out", f"--runner={cluster.runner}"
    process = _start(*command)
    _wait_for(process, tmp_path / "out", 2)
    for each in cluster.processes:  # Spark's executors would continue without the scheduler
        cluster.kill(each)
    code, said = _end(process)
    assert (code, "--runner=" in said, "run the same command again" in said) == (1, True, True), said
    finished = [path.with_suffix("") for path in (tmp_path / "out" / ".build").glob("*.tfrecord.json")]
    times = {path.name: path.stat().st_mtime_ns for path in finished}
    cluster.start_scheduler()
    cluster.start_worker()
    code, said = _end(_start(*command))
    assert code == 0, said
    assert built_data.contents(tmp_path / "out") == expected
    assert {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in times} == times


def test_a_worker_with_another_version_is_named(cluster, corpus, tmp_path):
    shutil.copytree(paths.ROOT / "tfrecord_builder", tmp_path / "other" / "tfrecord_builder")
    (tmp_path / "other" / "tfrecord_builder" / "changed.py").write_text("CHANGED = True")
    cluster.start_worker(PYTHONPATH=str(tmp_path / "other"))
    code, said = _end(_start(corpus, tmp_path / "out", f"--runner={cluster.runner}"))
    assert code == 1
    assert "the program's source is " in said and "install that version on the worker." in said


def test_a_lost_worker_does_not_change_transcripts(cluster, tiny_export, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(120):
        waveform = tiny_models.make_waveform(8000 + 160 * (number % 50), seed=number % 7)
        soundfile.write(tmp_path / "in" / f"{number}.wav", waveform, 16000)
    (tmp_path / "in" / "text.wav").write_text("no audio")
    soundfile.write(tmp_path / "in" / "silent.wav", np.zeros(16000), 16000)
    folder = os.path.relpath(tmp_path / "in", paths.ROOT)  # workers start in other directories
    command = ["-m", "estimator_asr.transcribe", f"--saved_model={tiny_export.export_dir}", "--format=json"]
    code, said = _end(_start_program(*command, f"--output_dir={tmp_path / 'local'}", folder))
    assert code == 1, said
    cluster.start_worker()
    cluster.start_worker()
    output_dir = os.path.relpath(tmp_path / "out", paths.ROOT)
    process = _start_program(*command, f"--output_dir={output_dir}", f"--runner={cluster.runner}", folder)
    _wait_for(process, tmp_path / "out" / ".transcribe", 2, "*/*.jsonl")
    cluster.kill(cluster.processes[1])
    code, said = _end(process)
    assert code == 1, said
    assert said.count(f"error: {folder}/text.wav: ") == said.count(f"warning: {folder}/silent.wav: ") == 1
    names = [f"{path.stem}.json" for path in (tmp_path / "in").iterdir() if path.stem != "text"]
    assert len(names) == 121
    assert sorted(os.listdir(tmp_path / "out")) == sorted([".transcribe", *names])
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()


def test_workers_encode_from_and_into_a_store_whose_credentials_the_command_has(
    cluster, tmp_path, monkeypatch
):
    cluster.start_worker()
    weights = small_whisper.write(tmp_path / "whisper")
    built_data.make(tmp_path, 20, 4, frontend="whisper_log_mel")
    encoder.encode(weights, str(tmp_path / "data"), str(tmp_path / "local"), (2, 3), 1, overwrite=False)
    with s3_server.run() as client:
        monkeypatch.setenv("AWS_SESSION_TOKEN", "token-4711")
        data_dir = s3_server.upload(client, tmp_path / "data", "data")
        flags = [f"--weights={weights}", f"--data_dir={data_dir}", "--layers=2,3"]
        flags += [f"--output_dir={s3_server.BUCKET}/encoded", f"--runner={cluster.runner}"]
        code, said = _end(_start_program("-m", "estimator_asr.encode", *flags))
        assert code == 0, said
        names = s3_server.list_keys(client, "encoded")
        got = {
            name: client.get_object(Bucket="bucket", Key=f"encoded/{name}")["Body"].read() for name in names
        }
    assert got == built_data.contents(tmp_path / "local")
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert "token-4711" not in logs + said


def test_workers_synthesise_the_bytes_of_local_processes(cluster, tmp_path):
    cluster.start_worker()
    cluster.start_worker()
    text = "hanzi\tpinyin\n" + 12 * "今天天气很好\t\n"
    small_corpora.write_text(tmp_path / "text" / "train.tsv", text)
    flags = ["--tts=espeak", "--num_speakers=4", f"--text_dir={tmp_path / 'text'}"]
    made = []
    for name, engine in (("local", "--num_workers=1"), ("shared", f"--runner={cluster.runner}")):
        output = f"--output_dir={tmp_path / name}"
        code, said = _end(_start_program("-m", "tfrecord_builder.synthesise", *flags, output, engine))
        assert code == 0, said
        paths_made = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        made.append({path.relative_to(tmp_path / name): path.read_bytes() for path in paths_made})
    assert made[0] == made[1]
    assert len([path for path in made[1] if path.suffix == ".wav"]) == 12


def test_workers_pseudo_label_as_one_process_does(cluster, tiny_export, tmp_path):
    cluster.start_worker()
    (tmp_path / "in").mkdir()
    for number in range(4):
        waveform = tiny_models.make_waveform(8000 + 160 * number, seed=number)
        soundfile.write(tmp_path / "in" / f"{number}.wav", waveform, 16000)
    command = ["-m", "estimator_asr.pseudo_label", f"--saved_model={tiny_export.export_dir}"]
    command += [f"--audio_dir={tmp_path / 'in'}", "--min_confidence=0", "--max_disagreement=9"]
    for name, runner in (("local", "local"), ("shared", cluster.runner)):
        code, said = _end(_start_program(*command, f"--output_dir={tmp_path / name}", f"--runner={runner}"))
        assert code == 0, said
    for name in ("manifest.tsv", "rejected.tsv"):
        assert (tmp_path / "shared" / name).read_bytes() == (tmp_path / "local" / name).read_bytes()
    rows = [(tmp_path / "local" / name).read_text().count("\n") for name in ("manifest.tsv", "rejected.tsv")]
    assert sum(rows) == 2 + 4
