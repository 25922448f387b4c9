"""Tests python -m tfrecord_builder.synthesise: reproducible bytes, --check, errors, interruptions."""

import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import programs
import pytest
import soundfile

from tfrecord_builder import errors, synthesise
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.corpora import registry
from tfrecord_builder.program import lazy_tensorflow as tf
from tfrecord_builder.storage import locks
from tfrecord_builder.synthesis import espeak, recogniser_check, synthesised_corpus, text_plan


@pytest.fixture(scope="module")
def text_dir(tmp_path_factory):
    """In each split, a sentence of seven syllables, a Latin letter, and sentences of two syllables."""
    directory = tmp_path_factory.mktemp("synthesise") / "text"
    directory.mkdir()
    for split, count in (("train", 8), ("dev", 4)):
        first = "今天，天气很好吗\tjin1 tian1 tian1 qi4 hen3 hao3 ma5"
        lines = ["hanzi\tpinyin", first, "A\t", *["你好\t"] * count]
        (directory / f"{split}.tsv").write_text("\n".join(lines), encoding="utf-8")
    return directory


def command(text_dir, output_dir, *flags):
    program = [sys.executable, "-m", "tfrecord_builder.synthesise", "--tts=espeak"]
    return [*program, f"--text_dir={text_dir}", f"--output_dir={output_dir}", *flags]


def run(*arguments):
    completed = subprocess.run(command(*arguments), capture_output=True, text=True)
    completed.stderr = leave_out_progress(completed.stderr)
    return completed


def leave_out_progress(said):
    """Removes the lines about progress, which appear if the synthesis takes more than ten seconds."""
    return re.sub(r"speaking: .*\n", "", said)


@pytest.fixture(scope="module")
def corpus(text_dir, tmp_path_factory):
    output_dir = tmp_path_factory.mktemp("synthesise") / "corpus"
    completed = run(text_dir, output_dir, "--num_speakers=4", "--num_workers=2")
    assert completed.returncode == 0, completed.stderr
    assert completed.stderr == ""
    assert completed.stdout.splitlines()[1:] == [
        "train: 9 utterances, 3 speakers",
        "dev: 5 utterances, 1 speakers",
        f"rejected: 2, see {output_dir}/rejected.tsv",
    ]
    return output_dir


def hashes(corpus):
    files = sorted(path for path in pathlib.Path(corpus).rglob("*") if path.is_file())
    return {str(path.relative_to(corpus)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_builder_reads_the_corpus(corpus):
    utterances = list(registry.list_utterances("manifest", [str(corpus)]))
    assert [utterance.utterance_id for utterance in utterances[:2]] == ["text-train-2", "text-train-4"]
    assert utterances[0].text == "今天，天气很好吗"
    assert utterances[0].pinyin == "jin1 tian1 tian1 qi4 hen3 hao3 ma5"
    assert utterances[1].pinyin == "ni3 hao3"
    for utterance in utterances:
        info = soundfile.info(utterance.audio)
        assert (info.samplerate, info.channels, info.subtype) == (16000, 1, "PCM_16")
        assert 0.1 < info.duration / len(utterance.pinyin.split()) < 0.7  # seconds per syllable
        samples, _ = soundfile.read(utterance.audio)
        assert samples.std() > 0.005 and 0.05 < abs(samples).max() < 1
    speakers = {split: {u.speaker for u in utterances if u.split == split} for split in ("train", "dev")}
    assert not speakers["train"] & speakers["dev"]


def test_rejected_tsv_lists_sentences_that_cannot_be_spoken(corpus):
    rule = "1 to 60 hanzi, each with a toned syllable (or Latin letters with kokoro)"
    reason = f"cannot be spoken: a sentence needs {rule}"
    assert (corpus / "rejected.tsv").read_text().splitlines() == [
        "utterance_id\tsplit\treason\trecording",
        f"text-train-3\ttrain\t{reason}\t",
        f"text-dev-3\tdev\t{reason}\t",
    ]


@pytest.mark.long
def test_same_bytes_with_one_worker_and_after_an_interruption(text_dir, corpus, tmp_path):
    flags = ("--num_speakers=4", "--num_workers=1")
    assert run(text_dir, tmp_path / "again", *flags).returncode == 0
    assert hashes(tmp_path / "again") == hashes(corpus)
    sorted((tmp_path / "again" / "wav").rglob("*.wav"))[5].unlink()
    (tmp_path / "again" / "manifest.tsv").unlink()
    assert run(text_dir, tmp_path / "again", *flags).returncode == 0
    assert hashes(tmp_path / "again") == hashes(corpus)


@pytest.mark.long
def test_a_recogniser_rejects_recordings(text_dir, tmp_path):
    """The recogniser outputs ni3 hao3 for all recordings."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        wav = tf.compat.v1.placeholder(tf.string, [None])
        outputs = {"status": tf.fill(tf.shape(wav), "ok"), "pinyin": tf.fill(tf.shape(wav), "ni3 hao3")}
        tf.compat.v1.saved_model.simple_save(session, str(tmp_path / "export"), {"wav_bytes": wav}, outputs)
    (tmp_path / "export" / "assets.extra").mkdir()
    (tmp_path / "export" / "assets.extra" / "export.json").write_text(json.dumps({"token_type": "syllable"}))
    completed = run(text_dir, tmp_path / "corpus", "--num_speakers=1", f"--check={tmp_path / 'export'}")
    assert completed.returncode == 0 and completed.stderr == ""
    utterances = list(registry.list_utterances("manifest", [str(tmp_path / "corpus")]))
    assert len(utterances) == 12 and {utterance.text for utterance in utterances} == {"你好"}
    assert completed.stdout.splitlines()[-1].startswith("rejected: 4, see ")
    rows = (tmp_path / "corpus" / "rejected.tsv").read_text().splitlines()
    assert rows[3].startswith("text-train-2\ttrain\terror rate is 0.86: status ok, recognised ni3 hao3\t")


@pytest.mark.long
def test_finished_recordings_are_not_synthesised_again(text_dir, corpus):
    path = next((corpus / "wav").rglob("*.wav"))
    before = path.stat().st_mtime_ns
    assert run(text_dir, corpus, "--num_speakers=4").returncode == 0
    assert path.stat().st_mtime_ns == before


@pytest.mark.long
def test_refuses_a_corpus_of_other_settings(text_dir, corpus):
    completed = run(text_dir, corpus, "--num_speakers=3")
    problem = f"error: --output_dir: the corpus in {corpus} was built from different settings"
    assert completed.returncode == 1 and completed.stderr.startswith(problem)


@pytest.mark.long
def test_only_one_synthesis_runs_in_a_directory(text_dir, corpus):
    with locks.exclusive(str(corpus), "busy"):
        completed = run(text_dir, corpus, "--num_speakers=4")
    assert completed.returncode == 1 and completed.stderr == (
        f"error: --output_dir: another synthesis is writing to {corpus}; wait until it ends.\n"
    )


@pytest.mark.long
def test_the_error_for_a_recording_that_cannot_be_written_names_it(text_dir, corpus, tmp_path):
    wav = shutil.copytree(corpus, tmp_path / "corpus") / "wav"
    speakers = sorted(path.name for path in wav.iterdir())
    for speaker in speakers:
        shutil.rmtree(wav / speaker)
        (wav / speaker).touch()
    completed = run(text_dir, tmp_path / "corpus", "--num_speakers=4", "--num_workers=1")
    assert completed.returncode == 1
    said = f"error: {wav}/({'|'.join(speakers)}): File exists; pass a path that can be read and written\n"
    assert re.fullmatch(said, completed.stderr)


@pytest.mark.long
def test_a_killed_synthesis_continues_to_the_same_bytes(text_dir, corpus, tmp_path):
    arguments = command(text_dir, tmp_path / "killed", "--num_speakers=4", "--num_workers=2")
    process = subprocess.Popen(arguments, start_new_session=True)
    while not list((tmp_path / "killed").glob(".units/*.json")):
        assert process.poll() is None
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    programs.wait_until(lambda: not _is_spoken(tmp_path / "killed"))
    assert not (tmp_path / "killed" / "manifest.tsv").exists()
    finished = {path: path.stat().st_mtime_ns for path in (tmp_path / "killed").glob(".units/*.json")}
    assert 0 < len(finished) < 4
    assert run(text_dir, tmp_path / "killed", "--num_speakers=4", "--num_workers=1").returncode == 0
    assert hashes(tmp_path / "killed") == hashes(corpus)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished


def test_every_worker_must_see_the_corpus_and_the_model(text_dir, tmp_path, monkeypatch):
    connected = []

    def connect(*arguments):
        connected.append(arguments)
        raise errors.UserError("no scheduler")

    monkeypatch.setattr(dispatch, "connect", connect)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setitem(text_plan.TTS, "kokoro", lambda config: espeak.EspeakEngine(seed=1))
    config = text_plan.SynthesisConfig(text_dir=(str(text_dir),), tts="kokoro", model="/models/kokoro")
    output = synthesised_corpus.OutputConfig(output_dir=str(tmp_path / "corpus"), runner="ray")
    with pytest.raises(errors.UserError, match="no scheduler"):
        synthesise.main(config, output, recogniser_check.CheckConfig())
    assert connected == [("ray", None, (str(tmp_path / "corpus"), "/models/kokoro"))]
    assert os.listdir(tmp_path / "corpus") == ["synthesis.json"]  # another --runner continues


@pytest.fixture(scope="module")
def long_text_dir(tmp_path_factory):
    """Text whose synthesis with 47 voices takes a minute."""
    directory = tmp_path_factory.mktemp("long")
    line = "今天天气很好我们去公园散步吧\t\n"
    (directory / "train.tsv").write_text("hanzi\tpinyin\n" + 4000 * line, encoding="utf-8")
    return directory


def _to_the_group(number):
    return lambda process: os.killpg(process.pid, number)  # as a terminal does on Ctrl-C


@pytest.mark.parametrize(
    "end, exit_code",
    [
        pytest.param(_to_the_group(signal.SIGINT), 130, marks=pytest.mark.long),
        pytest.param(_to_the_group(signal.SIGTERM), 143, marks=pytest.mark.slow),
        pytest.param(lambda process: process.terminate(), 143, marks=pytest.mark.slow),
        pytest.param(lambda process: process.kill(), -signal.SIGKILL, marks=pytest.mark.slow),
    ],
    ids=["ctrl_c", "sigterm_to_all", "sigterm", "sigkill"],
)
def test_an_ended_synthesis_leaves_no_process_and_no_partial_file(long_text_dir, tmp_path, end, exit_code):
    process = subprocess.Popen(
        command(long_text_dir, tmp_path, "--num_workers=3"),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background job ignores it
    )
    programs.wait_until(lambda: list(tmp_path.rglob("*.wav")))
    end(process)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == exit_code
    assert leave_out_progress(said) == ("interrupted\n" if exit_code == 130 else "")
    programs.wait_until(lambda: not _is_group(process.pid) and not _is_spoken(tmp_path))
    assert list(tmp_path.rglob("*.incomplete")) == []


def _is_spoken(output_dir):
    """Returns True if a process that synthesises prompts, in its own session, writes to the directory."""
    said = subprocess.run(["ps", "-A", "-o", "args="], capture_output=True, text=True, check=True).stdout
    return any("speak_here" in line and line.endswith(f" {output_dir}") for line in said.splitlines())


def _is_group(process_group):
    try:
        os.killpg(process_group, 0)
    except ProcessLookupError:
        return False
    return True
