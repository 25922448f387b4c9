"""Paths in object stores: each flag of a path takes them, or refuses them before anything is made."""

from __future__ import annotations

import re

import program_flags
import programs
import pytest

MODEL_DIRS = ("acoustic_model_dir", "language_model_dir")
LOCAL = {
    "estimator_asr.average": {"model_dir"},
    "estimator_asr.demo": {"output_dir"},
    "estimator_asr.demo.synthesise": {"output_dir"},
    "estimator_asr.doctor": {"model_dir"},
    "estimator_asr.encode": {"weights"},
    "estimator_asr.evaluate": {"model_dir", "saved_model", "output_dir"},
    "estimator_asr.export": {*MODEL_DIRS, "export_dir", "report_dir"},
    "estimator_asr.pseudo_label": {
        *("saved_model", "second_saved_model", "audio_dir", "output_dir", "report_dir")
    },
    "estimator_asr.replay": {"nan_dir"},
    "estimator_asr.serve": {"saved_model"},
    "estimator_asr.train": {"model_dir", "warm_start_from"},
    "estimator_asr.transcribe": {"saved_model"},
    "estimator_asr.tune": {*MODEL_DIRS},
    "tfrecord_builder.download": {"corpus_dir"},
}
REMOTE = {
    "estimator_asr.doctor": {"data_dir"},
    "estimator_asr.encode": {"data_dir", "output_dir"},
    "estimator_asr.evaluate": {"data_dir", "hotwords_file", "compare"},
    "estimator_asr.export": {"data_dir"},
    "estimator_asr.serve": {"token_file"},
    "estimator_asr.train": {"data_dir"},
    "estimator_asr.train_ngram": {"data_dir", "output_file"},
    "estimator_asr.transcribe": {"output_dir", "hotwords_file"},
    "estimator_asr.tune": {"data_dir", "ngram"},
    "tfrecord_builder.build": set(
        "corpus_dir output_dir vocabulary vocabulary_dir user_dictionary rir_dir noise_dir".split()
    ),
    "tfrecord_builder.show": {"data_dir", "output"},
    "tfrecord_builder.verify": {"data_dir"},
}
OTHERS = {"log_dir", "profile_file", "xml_output_file", "room_dir"}  # of absl; replaced by rir_dir
URLS = ("gs://bucket/a", "s3://bucket/a", "hdfs://host/a")
EXPECTED = (
    "expected a path on a local disk or a mounted volume; copy from or to an object store with its own tool, "
    "such as gcloud storage cp or aws s3 cp"
)


@pytest.fixture(scope="module")
def errors():
    """What each program says to each of its flags with each URL, by (program, flag, URL); "" if nothing."""
    listed = {module: LOCAL.get(module, set()) | REMOTE.get(module, set()) for module in LOCAL | REMOTE}
    commands = {
        module: {f"{flag} {url}": [f"--{flag}={url}"] for flag in flags for url in URLS}
        for module, flags in listed.items()
    }
    return {
        (module, *name.split()): parsed.get("error", "")
        for module, answer in program_flags.ask(commands).items()
        for name, parsed in answer["parsed"].items()
    }


@pytest.mark.parametrize("module", LOCAL)
def test_a_remote_path_is_refused_with_what_to_do(module, errors):
    wanted = {
        (module, flag, url): f"flag --{flag}={url}: {EXPECTED}" for flag in LOCAL[module] for url in URLS
    }
    assert {key: errors[key] for key in wanted} == wanted


@pytest.mark.parametrize("module", REMOTE)
def test_a_remote_path_that_works_is_not_refused(module, errors):
    said = [errors[module, flag, url] for flag in REMOTE[module] for url in URLS]
    assert len(said) >= 3 and not any("mounted volume" in each for each in said)


def test_every_flag_with_a_path_is_one_or_the_other(program_answers):
    for module, answer in program_answers.items():
        paths = {name for name in set(answer["flags"]) - OTHERS if re.search("(_dir|_file|_model)$", name)}
        known = LOCAL.get(module, set()) | REMOTE.get(module, set())
        assert paths <= known <= set(answer["flags"]), module
        assert not LOCAL.get(module, set()) & REMOTE.get(module, set()), module


@pytest.mark.parametrize(
    "module, arguments",
    [
        ("estimator_asr.train", ["--data_dir=/data", "--model_dir=gs://bucket/a"]),
        ("estimator_asr.evaluate", ["--data_dir=/data", "--model_dir=/a", "--output_dir=gs://bucket/a"]),
        ("estimator_asr.demo", ["--output_dir=gs://bucket/a"]),
    ],
)
def test_programs_make_no_directory_of_that_name(module, arguments, tmp_path):
    done = programs.run(module, *arguments, cwd=tmp_path)
    flag = arguments[-1]
    assert (done.returncode, done.stderr) == (1, f"error: flag {flag}: {EXPECTED}; see --help\n")
    assert list(tmp_path.iterdir()) == []


def test_show_weights_refuses_a_remote_word(tmp_path):
    done = programs.run("estimator_asr.show_weights", "s3://bucket/a", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        1,
        f"error: s3://bucket/a: is in an object store, {EXPECTED}\n",
    )
