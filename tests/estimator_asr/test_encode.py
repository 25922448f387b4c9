"""Tests all steps with a pretrained encoder: build, encode, train, evaluate, export, transcribe."""

import dataclasses
import json
import os
import shutil

import numpy as np
import programs
import pytest
import small_corpora
import small_hubert
import small_whisper

from estimator_asr import train as train_program
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory, training_config
from estimator_asr.models.tasks import feature_checks
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend, pretrained_encoder
from tfrecord_builder.data import dataset_info

TINY = [
    *("--encoder=whisper", "--encoder_layers=1", "--encoder_units=16", "--encoder_inner_units=16"),
    *("--train_steps=2", "--notry_worst_batch", "--show_utterances=1"),
]


def run(program, *flags):
    completed = programs.run(program, *flags)
    assert completed.returncode == 0 and "WARNING" not in completed.stderr, completed.stderr
    return completed.stdout


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("encode")
    corpus = small_corpora.make_manifest_corpus(path / "corpus", 8, 3)
    small_whisper.write(path / "whisper")
    flags = (f"--corpus_dir={corpus}", "--num_workers=1", "--num_shards=2", "--frontend=whisper_log_mel")
    run("tfrecord_builder.build", *flags, f"--output_dir={path}/data")
    said = run(
        "estimator_asr.encode",
        *(f"--weights={path}/whisper", f"--data_dir={path}/data", f"--output_dir={path}/encoded"),
        *("--layers=1,2", "--num_workers=1"),
    )
    assert said.splitlines()[-1].startswith("train: 8 utterances, 0.00 hours, ")
    return path


@pytest.fixture(scope="module")
def model(directory):
    run("estimator_asr.train", *TINY, f"--data_dir={directory}/encoded", f"--model_dir={directory}/am")
    return directory / "am"


def transcribe(directory, model):
    export = directory / f"{model}-export"
    run("estimator_asr.export", f"--acoustic_model_dir={directory / model}", f"--export_dir={export}")
    return run("estimator_asr.transcribe", f"--saved_model={export}", directory / "corpus/audio/u08.wav")


def evaluate(directory, data, *model):
    output = directory / "report"
    run("estimator_asr.evaluate", *model, f"--data_dir={data}", "--split=dev", f"--output_dir={output}")
    lines = (output / "hypotheses.tsv").read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t")[::2] for line in lines)


@pytest.mark.long
def test_a_model_of_encoded_records_transcribes_audio(directory, model):
    config = json.loads((model / "config.json").read_text())
    assert config["acoustic"]["pretrained"] == config["frontend"]["encoder"]
    assert set(pretrained_encoder.FILES) <= set(os.listdir(model))
    _, transcript, pinyin = transcribe(directory, "am").rstrip("\n").split("\t")
    # The export computes from the waveform the encoder outputs that the records hold.
    of_model = evaluate(directory, f"{directory}/encoded", f"--model_dir={directory}/am")
    of_export = evaluate(directory, f"{directory}/encoded", f"--saved_model={directory}/am-export")
    assert of_model["u08"] == of_export["u08"] == pinyin and transcript


@pytest.mark.slow
def test_upper_blocks_are_trained_on_stored_outputs_or_with_the_whole_encoder_in_the_graph(directory):
    for model, *data in (
        ("stored", f"--data_dir={directory}/encoded"),
        ("graph", f"--data_dir={directory}/data", f"--warm_start_from={directory}/whisper"),
    ):
        run("estimator_asr.train", *TINY, "--trainable_blocks=1", *data, f"--model_dir={directory}/{model}")
        assert transcribe(directory, model).startswith(f"{directory}/corpus/audio/u08.wav\t")


def config(directory, data, warm_start_from=None, **acoustic):
    settings = config_lib.Settings(
        acoustic=config_lib.AcousticConfig(**{"encoder": "whisper", **acoustic}),
        train=training_config.TrainConfig(warm_start_from=warm_start_from),
    )
    data_dirs = [str(directory / data)]
    return train_program.build_config(settings, dataset_info.load_all(data_dirs), data_dirs)


def test_the_models_encoder_is_from_the_data_or_from_the_warm_start(directory):
    encoded = config(directory, "encoded")
    assert (encoded.acoustic.pretrained.layers, encoded.subsampling) == ((1, 2), 2)
    assert encoded.train.warm_start_from is None
    whisper = {"warm_start_from": str(directory / "whisper")}
    in_graph = config(directory, "data", **whisper)
    assert (in_graph.acoustic.pretrained.layers, in_graph.subsampling) == ((2, 3), 4)
    assert in_graph.acoustic.pretrained.encoder == encoded.acoustic.pretrained.encoder
    upper = config(directory, "data", **whisper, trainable_blocks=2)
    assert upper.acoustic.pretrained.layers == (1,)
    for blocks in (1, 2):  # with 2 trained blocks, the outputs of block 2 are not read
        stored = config(directory, "encoded", trainable_blocks=blocks)
        assert stored.train.warm_start_from == str(directory / "encoded")
        assert stored.acoustic.pretrained.layers == (1, 2)
    assert config(directory, "data", **whisper, trainable_blocks=1).acoustic.pretrained.layers == (2,)


@pytest.mark.parametrize(
    "data, changes, said",
    [
        (
            "encoded",
            {"encoder": "conformer"},
            "--encoder is conformer, but the data contain outputs of whisper",
        ),
        ("data", {}, "--encoder=whisper needs encoded data or pretrained weights; run python -m estimator_"),
        (
            "encoded",
            {"encoder": "hubert"},
            "--encoder is hubert, but the data contain outputs of whisper; pass --encoder=wh",
        ),
        (
            "data",
            {"encoder": "hubert", "warm_start_from": "whisper"},
            "--encoder is hubert, but --warm_start_from has weights of whisper; pass --encod",
        ),
        (
            "encoded",
            {"trainable_blocks": 3},
            "--trainable_blocks is 3, expected 1 or 2, because the data contain the outputs of blocks 1,2 of "
            "3, but not of block 0; choose blocks with estimator_asr.encode --layers",
        ),
        (
            "data",
            {"warm_start_from": "whisper", "trainable_blocks": 3},
            "--trainable_blocks is 3, expected at most 2, because .* has 3 blocks",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(directory, data, changes, said):
    if "warm_start_from" in changes:
        changes = {**changes, "warm_start_from": str(directory / changes["warm_start_from"])}
    with pytest.raises(errors.UserError, match=said):
        config(directory, data, **changes)


def test_blocks_that_a_warm_start_does_not_read_are_refused(directory):
    in_graph = config(directory, "data", warm_start_from=str(directory / "whisper"), trainable_blocks=1)
    chosen = dataclasses.replace(in_graph.acoustic, trainable_blocks=2)
    said = (
        "is 2, expected 1, because --warm_start_from reads the outputs of blocks 2 of 3, but not of block 1"
    )
    with pytest.raises(errors.UserError, match=said):
        feature_checks.check_pretrained(chosen, chosen.pretrained, in_graph.frontend)


def test_blocks_are_not_trained_on_weights_in_an_object_store(directory):
    acoustic = config_lib.AcousticConfig(encoder="whisper", trainable_blocks=1)
    settings = config_lib.Settings(acoustic=acoustic)
    infos = dataset_info.load_all([str(directory / "encoded")])
    said = "--trainable_blocks=1 must be on a local disk, but --data_dir=s3://bucket/encoded is in an object"
    with pytest.raises(errors.UserError, match=f"{said}.*encode as --weights, or --trainable_blocks=0$"):
        train_program.build_config(settings, infos, ["s3://bucket/encoded"])


@pytest.mark.parametrize(("vocabulary_dir", "weights"), [("encoded", "{}/encoded"), ("data", "WEIGHTS")])
def test_the_suggested_encode_command_has_the_path_of_the_weights(directory, vocabulary_dir, weights):
    model = dataset_info.DatasetInfo.load(str(directory / "encoded"))
    program = f"python -m estimator_asr.encode --weights={weights.format(directory)} --layers=1,2"
    with pytest.raises(errors.UserError, match=f", encode them with {program}, or use"):
        model_directory.refuse_difference(
            "D", "M", {"frontend": (1, 2)}, str(directory / vocabulary_dir), model
        )


def test_a_warm_start_without_weights_is_refused(directory, tmp_path):
    with pytest.raises(errors.UserError, match="nowhere does not exist; check the path"):
        config(directory, "data", warm_start_from=str(tmp_path / "nowhere"))
    unfinished = small_whisper.write(tmp_path / "unfinished")
    os.rename(f"{unfinished}/model.safetensors", f"{unfinished}/pytorch_model.bin")
    with pytest.raises(errors.UserError, match=r"unfinished: model.safetensors is missing; .*pytorch_model"):
        config(directory, "data", warm_start_from=unfinished)


@pytest.mark.long
def test_features_of_another_frontend_are_refused(directory, tmp_path):
    flags = (f"--corpus_dir={directory}/corpus", "--num_workers=1", f"--output_dir={tmp_path}/data")
    run("tfrecord_builder.build", *flags)
    said = "features are log_mel with 80 values per frame, but whisper needs whisper_log_mel with 80; build"
    with pytest.raises(errors.UserError, match=said):
        config(tmp_path, "data", warm_start_from=str(directory / "whisper"))


@pytest.mark.long
def test_a_damaged_encoder_beside_the_model_is_refused_at_export(model, tmp_path):
    shutil.copytree(model, tmp_path / "am")
    other = small_whisper.write(tmp_path / "other", small_whisper.make_tensors(1))
    os.replace(os.path.join(other, "model.safetensors"), tmp_path / "am" / pretrained_encoder.FILES[1])
    flags = (f"--acoustic_model_dir={tmp_path}/am", f"--export_dir={tmp_path}/export")
    completed = programs.run("estimator_asr.export", *flags)
    assert completed.returncode == 1 and not os.path.exists(tmp_path / "export" / "1")
    assert "sha256 of the encoder's weights is" in completed.stderr


@pytest.mark.long
def test_the_message_on_unencoded_data_names_the_encode_command(directory, model, tmp_path):
    """The records are log-mel, but the model reads encoder outputs."""
    flags = (f"--model_dir={model}", f"--data_dir={directory}/data", f"--output_dir={tmp_path}/out")
    completed = programs.run("estimator_asr.evaluate", "--split=dev", *flags)
    assert completed.returncode == 1
    assert f"python -m estimator_asr.encode --weights={model} --layers=1,2" in completed.stderr


@pytest.mark.long
def test_waveform_data_can_only_be_read_by_encode(directory, tmp_path):
    flags = (f"--corpus_dir={directory}/corpus", "--num_workers=1", f"--output_dir={tmp_path}/data")
    run("tfrecord_builder.build", *flags, "--frontend=waveform")
    said = "train: the data contain waveforms instead of an encoder's outputs"
    for encoder in ("conformer", "hubert"):
        with pytest.raises(errors.UserError, match=said):
            config(tmp_path, "data", encoder=encoder)


@pytest.mark.slow
def test_a_model_on_hubert_transcribes_audio(directory, tmp_path):
    """Unlike with Whisper above, the features are samples, and upper blocks are also trained."""
    flags = (f"--corpus_dir={directory}/corpus", "--num_workers=1", f"--output_dir={tmp_path}/data")
    run("tfrecord_builder.build", *flags, "--frontend=waveform")
    weights = f"--weights={small_hubert.write(tmp_path / 'hubert')}"
    data = (f"--data_dir={tmp_path}/data", f"--output_dir={tmp_path}/encoded")
    run("estimator_asr.encode", weights, *data, "--layers=1,2", "--num_workers=1")
    for blocks in (0, 1, 2):
        model = f"--model_dir={tmp_path}/am{blocks}"
        flags = (*TINY, "--encoder=hubert", f"--trainable_blocks={blocks}", f"--data_dir={tmp_path}/encoded")
        run("estimator_asr.train", *flags, model)
        transcribe(directory, tmp_path / f"am{blocks}")
        of_model = evaluate(tmp_path, tmp_path / "encoded", model)
        of_export = evaluate(tmp_path, tmp_path / "encoded", f"--saved_model={tmp_path}/am{blocks}-export")
        assert of_model == of_export


def test_stored_vectors_keep_their_log_mel_for_pictures():
    encoder = pretrained_encoder.PretrainedEncoder("whisper", 80, 16, 32, 2, 3, "")
    applied = pretrained_encoder.Applied(encoder, (3,))
    features = np.arange(2 * 176, dtype=np.float32).reshape(2, 176)
    whisper = frontend.FrontendConfig(frontend="whisper_log_mel", encoder=applied)
    frames = frontend.log_mel_of(features, whisper)
    assert frames.shape == (4, 80)
    np.testing.assert_array_equal(frames[1], np.arange(80, 160))
    np.testing.assert_array_equal(frames[2], np.arange(176, 256))
    assert frontend.log_mel_of(features, frontend.FrontendConfig()) is features
