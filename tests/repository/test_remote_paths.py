"""Tests paths in object stores: each flag for a path accepts them, or refuses them before work starts."""

import re

import program_flags
import pytest

from estimator_asr.pretrained import warm_start
from tfrecord_builder import errors

# Program | flags for local paths only | flags for paths that may be in an object store
TABLE = """
estimator_asr.align | saved_model audio_dir text_dir pairs output_dir | corpus_dir data_dir
estimator_asr.average | model_dir |
estimator_asr.demo | output_dir |
estimator_asr.demo.sentences | output_dir |
estimator_asr.doctor | model_dir | data_dir
estimator_asr.encode | weights | data_dir output_dir
estimator_asr.evaluate | model_dir saved_model output_dir | data_dir hotwords_file compare
estimator_asr.export | acoustic_model_dir language_model_dir punctuation_model_dir export_dir report_dir \
    | data_dir
estimator_asr.pseudo_label | saved_model second_saved_model audio_dir output_dir report_dir |
estimator_asr.replay | nan_dir |
estimator_asr.serve | saved_model | token_file
estimator_asr.show_weights | |
estimator_asr.train | model_dir warm_start_from | data_dir
estimator_asr.train_ngram | | data_dir output_file
estimator_asr.transcribe | saved_model | output_dir hotwords_file
estimator_asr.tune | acoustic_model_dir language_model_dir punctuation_model_dir whisper_decoder \
    | data_dir ngram
tfrecord_builder.build | | corpus_dir output_dir vocabulary vocabulary_dir user_dictionary rir_dir noise_dir
tfrecord_builder.download | corpus_dir |
tfrecord_builder.show | | data_dir output
tfrecord_builder.synthesise | output_dir model check | text_dir
tfrecord_builder.verify | | data_dir
"""
PATHS = {line.split(" |")[0]: line.split("|")[1:] for line in TABLE.strip().splitlines()}
DEMO = ("estimator_asr.demo", "output_dir")  # contains model directories
EXPECTED = (
    "expected a path on a local disk or a mounted volume; copy from or to an object store with its own tool, "
    "such as gcloud storage cp or aws s3 cp"
)


@pytest.mark.parametrize("module", program_flags.programs())
def test_each_flag_of_a_path_refuses_object_stores_or_takes_them(module, program_answers):
    local, remote = (set(flags.split()) for flags in PATHS[module])
    said = program_answers[module]["remote"]
    refusals = {flag: [f"flag --{flag}={url}: {EXPECTED}" for url in program_flags.URLS] for flag in said}
    assert {flag for flag in said if said[flag] == refusals[flag]} == local
    assert not any("mounted volume" in str(said[flag]) for flag in set(said) - local)
    assert {flag for flag in said if re.search("(_dir|_file|_model)$", flag)} <= local | remote <= set(said)


@pytest.mark.parametrize("module", program_flags.programs())
def test_paths_of_checkpoints_have_no_character_of_a_pattern(module, program_answers):
    said = program_answers[module]["patterns"]
    refused = {flag for flag, answers in said.items() if "a wildcard in TensorFlow" in str(answers)}
    models = "(acoustic_|language_|punctuation_|)model_dir|(second_|)saved_model"
    ours = f"{models}|export_dir|nan_dir|warm_start_from|check"
    assert refused == {flag for flag in said if re.fullmatch(ours, flag) or (module, flag) == DEMO}
    for flag in refused:
        assert said[flag] == [
            f"flag --{flag}=/a{special}: expected a path without {special}, a wildcard in TensorFlow; "
            "rename the directory"
            for special in program_flags.PATTERNS
        ]


def test_show_weights_and_warm_start_refuse_an_object_store():
    with pytest.raises(errors.UserError) as raised:
        warm_start.find_checkpoint("s3://bucket/a")
    assert str(raised.value) == f"s3://bucket/a is in an object store, {EXPECTED}"
