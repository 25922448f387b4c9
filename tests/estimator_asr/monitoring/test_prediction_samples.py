import dataclasses
import io
import os
import pathlib
import types

import event_files
import matplotlib.image
import numpy as np
import numpy_alignment
import pytest
import small_models
import soundfile
import tensorflow as tf
import tiny_models

from estimator_asr.experiment import config as config_lib
from estimator_asr.models.tasks import tasks
from estimator_asr.monitoring import prediction_samples, sample_utterances
from tfrecord_builder.building import sharding
from tfrecord_builder.data import dataset_info, manifest
from tfrecord_builder.labels import labelling


def save_weights(model, seed):
    """Writes a checkpoint of the whole model; the checkpoint of tiny_models lacks the decoder."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(seed)
        labels = {"token_ids": tf.constant([[1]]), "num_tokens": tf.constant([1])}
        features = {"fbank": tf.zeros([1, 9, 20]), "num_frames": tf.constant([9])}
        tasks.for_model(model).build(features, labels)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, os.path.join(model.path, "model.ckpt"), seed)


def export(exporter, path, checkpoint, step):
    estimator = types.SimpleNamespace(eval_dir=lambda: str(path))
    with tf.Graph().as_default():  # programs disable eager execution
        exporter.write(estimator, checkpoint, {"global_step": step})


class Made:
    """A model with random weights, data, and the prediction samples for both."""

    def __init__(self, path, kind):
        self.path = path
        self.model = getattr(tiny_models, f"make_{kind}_model")(str(path / "model"))
        if kind == "acoustic":
            save_weights(self.model, seed=1)
        self.data = str(path / "data")
        self.utterances = tiny_models.make_data(self.data, with_audio=kind == "acoustic")
        self.info = dataset_info.DatasetInfo.load(self.data)
        self.exporter = prediction_samples.PredictionSamples(self.model, [self.info], [self.data], "test")
        self.checkpoint = tf.train.latest_checkpoint(self.model.path)

    def export(self, step=7):
        export(self.exporter, self.path / "eval", self.checkpoint, step)

    def read(self):
        """Returns the written values by step, each a dict keyed by (kind, tag)."""
        found = {}
        for step, value in event_files.read_values(self.path / "eval"):
            found.setdefault(step, {})[value.WhichOneof("value"), value.tag] = value
        return found


@pytest.fixture(scope="module")
def acoustic(tmp_path_factory):
    return Made(tmp_path_factory.mktemp("acoustic"), "acoustic")


def write_items(made):
    """Lists the recordings of all utterances, and writes them except that of u3."""
    lines = []
    for name, (speaker, text, pinyin, waveform) in made.utterances.items():
        path = made.path / f"{name}.wav"
        if name != "u3":
            soundfile.write(path, waveform, tiny_models.FRONTEND.sample_rate, subtype="PCM_16")
        utterance = manifest.Utterance(name, str(path), speaker, text, pinyin, "test")
        labels = labelling.Labels(text, tuple(pinyin.split()), ())
        lines.append(sharding.to_line(sharding.LabelledUtterance(utterance, labels)))
    pathlib.Path(made.data, "test-00000-of-00001.jsonl").write_text("".join(lines), encoding="utf-8")


@pytest.mark.long
def test_each_utterance_has_a_picture_and_a_text_at_every_evaluation_and_its_sound_once(acoustic):
    write_items(acoustic)
    chosen = [f"test/{each.utterance_id}" for each in acoustic.exporter.utterances]
    assert len(chosen) == 4
    acoustic.export(7)
    acoustic.export(9)
    found = acoustic.read()
    assert set(found) == {7, 9}
    tags = [tag for _, tag in found[7]]
    assert len(set(tags)) == len(tags)  # TensorBoard shows only the first kind of value of each tag
    for tag in chosen:
        image = found[9]["image", f"{tag}/picture"].image
        pixels = matplotlib.image.imread(io.BytesIO(image.encoded_image_string))
        assert pixels.shape[:2] == (image.height, image.width)
        text = tf.make_ndarray(found[9]["tensor", f"{tag}/text"].tensor).item().decode()
        assert "| reference | " in text and "| hypothesis | " in text and " wrong of " in text
    sounds = {tag: value.audio for (kind, tag), value in found[7].items() if kind == "audio"}
    assert set(sounds) == {f"{tag}/sound" for tag in chosen} - {"test/u3/sound"} and len(sounds) >= 3
    for tag, sound in sounds.items():
        assert sound.length_frames == len(acoustic.utterances[tag.split("/")[1]][3])
    assert not any(kind == "audio" for kind, _ in found[9])


def test_the_language_model_has_only_text(tmp_path):
    made = Made(tmp_path, "language")
    made.export()
    assert {kind for kind, _ in made.read()[7]} == {"tensor"}


@pytest.mark.long
def test_each_evaluation_uses_its_own_checkpoint(acoustic, monkeypatch):
    restored, restore = [], prediction_samples.SampleRecogniser.restore

    def restore_it(recogniser, checkpoint):
        restored.append(checkpoint)
        restore(recogniser, acoustic.checkpoint)

    monkeypatch.setattr(prediction_samples.SampleRecogniser, "restore", restore_it)
    for checkpoint in ("model.ckpt-1", "model.ckpt-2"):
        export(acoustic.exporter, acoustic.path / "each", checkpoint, 1)
    assert restored == ["model.ckpt-1", "model.ckpt-2"]


@pytest.mark.long
def test_slow_samples_are_logged(acoustic, monkeypatch, log):
    times = iter([0.0, 6.0])
    monkeypatch.setattr(prediction_samples.time, "monotonic", lambda: next(times))
    acoustic.export(11)
    assert log[-1] == "showing 4 utterances in TensorBoard took 6 s; pass a smaller --show_utterances"


@pytest.mark.long
def test_a_missing_font_is_logged_once(acoustic, monkeypatch, log):
    exporter = prediction_samples.PredictionSamples(acoustic.model, [acoustic.info], [acoustic.data], "test")
    monkeypatch.setattr(prediction_samples.fonts, "can_draw", lambda text: False)
    for step in (1, 2):
        export(exporter, acoustic.path / "other", acoustic.checkpoint, step)
    assert [line for line in log if line.startswith("TensorBoard: no installed font")] == [
        "TensorBoard: no installed font has all tokens, so some are drawn as boxes; install a CJK font, for "
        "example: apt-get install fonts-noto-cjk (Debian, Ubuntu)"
    ]


@pytest.mark.long
def test_a_sample_is_recognised_with_the_restored_checkpoint(acoustic):
    recogniser = prediction_samples.SampleRecogniser(acoustic.model)
    recogniser.restore(acoustic.checkpoint)
    utterance = acoustic.exporter.utterances[0]
    found = recogniser.recognise(utterance)
    frames, classes = -(-len(utterance.values["fbank"]) // 4), tiny_models.TOKENS.num_classes
    assert found.log_probs.shape == (frames, classes)
    np.testing.assert_allclose(np.exp(found.log_probs).sum(axis=1), 1, rtol=1e-4)
    assert found.attention.shape == (utterance.values["num_tokens"] + 1, frames)
    np.testing.assert_allclose(found.attention.sum(axis=1), 1, rtol=1e-4)
    blank_id = acoustic.model.tokens.blank_id
    spans = numpy_alignment.align(found.log_probs, utterance.values["token_ids"], blank_id)
    assert [*zip(found.starts, found.ends)] == [(span.first, span.last + 1) for span in spans]
    best = found.log_probs.argmax(axis=1)
    merged = [int(c) for i, c in enumerate(best) if c != classes - 1 and (i == 0 or c != best[i - 1])]
    greedy = dataclasses.replace(acoustic.model, decode=config_lib.DecodeConfig(decoding="greedy"))
    recogniser = prediction_samples.SampleRecogniser(greedy)
    recogniser.restore(acoustic.checkpoint)
    assert recogniser.recognise(utterance).ids.tolist() == merged
    save_weights(dataclasses.replace(acoustic.model, path=str(acoustic.path)), seed=9)
    recogniser.restore(tf.train.latest_checkpoint(str(acoustic.path)))
    assert not np.allclose(recogniser.recognise(utterance).log_probs, found.log_probs)


@pytest.mark.long
def test_a_model_without_a_decoder_has_no_attention(tmp_path):
    made = tiny_models.make_acoustic_model(str(tmp_path / "model"))
    without = dataclasses.replace(small_models.ACOUSTIC, decoder_layers=0)
    config = dataclasses.replace(made.config, acoustic=without)
    recogniser = prediction_samples.SampleRecogniser(dataclasses.replace(made, config=config))
    recogniser.restore(tf.train.latest_checkpoint(made.path))
    values = {"fbank": np.zeros([40, 20], np.float32), "num_frames": 40, "token_ids": [1], "num_tokens": 1}
    assert recogniser.recognise(sample_utterances.SampleUtterance("u", "", values)).attention is None


def test_the_picture_of_a_trained_model_has_each_label_where_it_was_spoken(acoustic):
    """Each label is probable in two frames, and the blank in all others, as in a trained model."""
    blank, (first, second) = acoustic.model.tokens.blank_id, (1, 3)
    best = np.full(20, blank)
    best[[4, 5]], best[[11, 12]] = first, second
    probabilities = np.where(np.arange(blank + 1) == best[:, None], 0.9, 0.1 / blank)
    values = {"fbank": np.zeros([80, 20], np.float32), "token_ids": np.array([first, second])}
    spans = np.array([4, 11]), np.array([6, 13])
    ids = values["token_ids"]
    found = prediction_samples.PredictionSample(ids, 2, np.log(probabilities), None, *spans)
    utterance, build = sample_utterances.SampleUtterance("u", "", values), prediction_samples.build_picture
    picture = build(acoustic.model, utterance, found, ["a", "b"], ["a", "c"])
    assert picture.spans == [(4, 6), (11, 13)]
    np.testing.assert_allclose(picture.probabilities[[4, 12], [0, 1]], 0.9)
    assert picture.lines == ["u", "reference:  a b", "hypothesis: a c"] and picture.seconds == 0.8
    short = found._replace(log_probs=found.log_probs[:1])  # one frame for two labels
    assert build(acoustic.model, utterance, short, ["a", "b"], ["a"]).spans == []


@pytest.mark.parametrize(
    "reference, hypothesis, expected",
    [
        ("a b c", "a d c e", ["2 wrong of 3", "a | b | c | ·", "a | **d** | c | **e**"]),
        ("ni3 hao3", "hao3", ["1 wrong of 2", "ni3 | hao3", "**·** | hao3"]),
        ("a", "a", ["0 wrong of 1", "a", "a"]),
        ("a", "", ["1 wrong of 1", "a", "**·**"]),
        ("", "", ["0 wrong of 0"]),
    ],
)
def test_differences_are_bold_and_missing_tokens_a_dot(reference, hypothesis, expected):
    text = prediction_samples.compare_texts(reference.split(), hypothesis.split())
    first, *rows = text.split("\n")
    shown = [f"| {name} | {row} |" for name, row in zip(("reference", "hypothesis"), expected[1:])]
    assert [first, *rows[1::2]] == [expected[0], *shown]
    assert not rows or rows[2] == "| --- " * (expected[1].count("|") + 2) + "|"


def test_markup_in_tokens_is_escaped():
    text = prediction_samples.compare_texts(["<unk>", "a|b", "*"], ["<unk>", "a|b", "*"])
    assert "&lt;unk&gt;" in text and r"a\|b" in text and r"\*" in text


def test_a_long_utterance_has_several_tables():
    text = prediction_samples.compare_texts(["a"] * 40, ["a"] * 40)
    assert text.count("reference") == 3 and text.count("| a |") == 3 * 2 * 8 - 8
