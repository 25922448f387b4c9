"""A new encoder, decoder or loss needs one file and one entry; nothing else knows its name."""

import dataclasses

import new_models
import pytest
import small_models
import small_records
import tensorflow as tf

from estimator_asr import train
from estimator_asr.decoding.search import decoders, hypotheses
from estimator_asr.experiment import config, estimator_api, experiment, training_config
from estimator_asr.inputs import input_fn, splits
from estimator_asr.models import acoustic, encoders, layers
from estimator_asr.models.tasks import acoustic_task, metrics, tasks
from estimator_asr.training import model_fn
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend

SMALL = {"encoder": "toy", "encoder_units": 16, "attention_heads": 2, "decoder_layers": 0}


SUBSAMPLING = 8


def join_frames(config, fbank, num_frames, seed) -> encoders.Encoding:
    """Joins each group of eight frames into one vector."""
    del seed
    fbank = layers.clear_padding(fbank, layers.sequence_mask(num_frames, tf.shape(fbank)[1]))
    fbank = tf.pad(fbank, [[0, 0], [0, -tf.shape(fbank)[1] % SUBSAMPLING], [0, 0]])
    joined = tf.reshape(fbank, [tf.shape(fbank)[0], -1, SUBSAMPLING * fbank.shape[2]])
    num_frames = frontend.num_subsampled_frames(num_frames, SUBSAMPLING)
    mask = layers.sequence_mask(num_frames, tf.shape(joined)[1])
    outputs = layers.dense(joined, config.encoder_units, "project")
    return encoders.Encoding(layers.clear_padding(outputs, mask), num_frames, mask)


ENCODER = encoders.Encoder(join_frames, SUBSAMPLING)


def decode(config, logits, num_frames, scorers=()) -> hypotheses.Hypotheses:
    """Finds token 1 for every utterance."""
    del config, num_frames, scorers
    count = tf.ones([tf.shape(logits)[0], 1], tf.int32)
    scores = tf.zeros(tf.shape(count))
    return hypotheses.Hypotheses(count[..., None], count, scores, scores)


class TripleCtc(acoustic_task.Acoustic):
    def losses(self, outputs, features, labels, training) -> metrics.Losses:
        ctc = acoustic_task.ctc_part(outputs, labels)
        return metrics.Losses(3 * ctc.numerator, {"ctc-loss": ctc}, ctc.denominator)


@pytest.fixture(autouse=True)
def encoder(monkeypatch):
    monkeypatch.setitem(acoustic.ENCODERS, "toy", ENCODER)


def make_model(path, **acoustic):
    info = small_records.make_data(str(path / "data"))
    settings = config.Settings(
        acoustic=config.AcousticConfig(**{**SMALL, **acoustic}),
        watch=training_config.WatchConfig(try_worst_batch=False),  # the plan knows no shapes
    )
    settings = train.build_config(settings, [info], [str(path / "data")])
    return small_models.create_or_check(str(path / "model"), settings, str(path / "data")), info


def run(path, model, info):
    """Trains two steps; returns the metrics on dev."""
    build = model_fn.build_model_fn(model, new_models.plan())

    def read(split, training):
        source = splits.read_split([info], [str(path / "data")], split, model.config.spec)
        return input_fn.build_input_fn(source, model.config.input, training=training)

    estimator = estimator_api.Estimator(build, model.path, estimator_api.RunConfig(model.path))
    estimator.train(read("train", True), max_steps=2)
    return estimator.evaluate(read("dev", False))


@pytest.mark.long
def test_a_toy_encoder_that_subsamples_by_8_trains_on_the_data_as_it_is(tmp_path):
    model, info = make_model(tmp_path)
    assert run(tmp_path, model, info)["avg-loss"] > 0
    saved = experiment.ExperimentConfig.load(model.path)
    assert (saved.acoustic.encoder, saved.subsampling) == ("toy", 8)


def recognise(model, decoding):
    """Builds a model that decodes by `decoding`; returns the tokens of an utterance of 20 frames."""
    model = dataclasses.replace(model, decode=config.DecodeConfig(decoding=decoding))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        shape = [1, 20, model.config.frontend.num_bins]
        found = tasks.for_model(model).recognise({"fbank": tf.zeros(shape), "num_frames": tf.constant([20])})
        session.run(tf.compat.v1.global_variables_initializer())
        return session.run(found.ids).tolist()


def test_a_toy_decoder_recognises(tmp_path, monkeypatch):
    monkeypatch.setitem(decoders.DECODERS, "toy", decode)
    assert recognise(make_model(tmp_path)[0], "toy") == [[1]]


@pytest.mark.long
def test_a_toy_loss_is_minimised(tmp_path, monkeypatch):
    monkeypatch.setitem(tasks.TASKS, "acoustic", lambda: TripleCtc)
    metrics = run(tmp_path, *make_model(tmp_path))
    assert metrics["avg-loss"] == pytest.approx(3 * metrics["ctc-loss"], rel=1e-5)


@pytest.mark.parametrize("encoder", ["cnn", "whisper"])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"local_ctc_weight": 0.3},
            "--local_ctc_weight is 0.3, but --encoder={} does not provide frames computed before an "
            "attention layer; leave out --local_ctc_weight",
        ),
        (
            {"chunk_frames": 32},
            "--encoder is {}, but --chunk_frames=32 needs conformer or transformer, because {} needs "
            "whole recordings; leave out --chunk_frames (serve returns interim results with any model)",
        ),
    ],
)
def test_settings_that_an_encoder_does_not_support_are_refused(tmp_path, encoder, settings, message):
    with pytest.raises(errors.UserError) as refused:
        make_model(tmp_path, encoder=encoder, **settings)
    assert str(refused.value) == f"train: {message.replace('{}', encoder)}"


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            {"frontend": "whisper_log_mel"},
            "features are whisper_log_mel, but --chunk_frames=32 needs log_mel or log_spectrogram, "
            "because other features depend on the whole recording; build the data with --frontend=log_mel",
        ),
        (
            {"window_ms": 10.0, "hop_ms": 20.0, "num_mel_bins": 20},
            "features have --window_ms=10 and --hop_ms=20, but --chunk_frames=32 needs a window at least as "
            "long as the hop; build the data with other flags",
        ),
    ],
)
def test_chunks_need_frames_that_depend_only_on_their_window_and_leave_no_gaps(tmp_path, features, message):
    info = small_records.make_data(str(tmp_path / "data"))
    info = dataclasses.replace(info, frontend=frontend.FrontendConfig(**features))
    settings = config.Settings(acoustic=config.AcousticConfig(chunk_frames=32))
    with pytest.raises(errors.UserError) as refused:
        train.build_config(settings, [info], [str(tmp_path / "data")])
    assert str(refused.value) == f"train: {message}"


def test_an_unknown_encoder_lists_the_choices(tmp_path):
    choices = "conformer, transformer, cnn, whisper, hubert, wav2vec2, toy"
    with pytest.raises(errors.UserError, match=f"train: --encoder is lstm, expected one of {choices}"):
        make_model(tmp_path, encoder="lstm")
    assert not (tmp_path / "model").exists()
