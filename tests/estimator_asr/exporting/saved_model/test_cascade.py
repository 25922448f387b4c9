"""The cascade returns the text that the Estimator predicts, independent of the batch and its padding."""

import contextlib
import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tiny_models

from estimator_asr.decoding import sequences
from estimator_asr.experiment import checkpoints, config, model_directory
from estimator_asr.exporting.saved_model import cascade, recogniser
from estimator_asr.training import model_fn
from tfrecord_builder.data import syllables, vocabulary


@contextlib.contextmanager
def running(models, build):
    """Runs `build` in a new graph and restores the models; yields a Recogniser for its inputs and outputs."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        inputs, outputs = build()
        for model in models:
            cascade.restore(session, model, checkpoints.latest(model.path))
        session.run(tf.compat.v1.tables_initializer())
        yield recogniser.Recogniser(session, inputs, outputs)


def make_placeholders():
    return {
        "fbank": tf.compat.v1.placeholder(tf.float32, [None, None, tiny_models.FRONTEND.num_bins]),
        "num_frames": tf.compat.v1.placeholder(tf.int32, [None]),
    }


def build_cascade(acoustic, language):
    inputs = make_placeholders()
    return inputs, cascade.transcribe(acoustic, language, **inputs)


@pytest.fixture(scope="module")
def models(tiny_export):
    paths = tiny_export.acoustic_dir, tiny_export.language_dir
    return [model_directory.open_model_directory(path) for path in paths]


@pytest.fixture(scope="module")
def whole(models):
    with running(models, lambda: build_cascade(*models)) as model:
        yield model


@contextlib.contextmanager
def converting(language):
    """Yields a function that converts sentences (lists of tokens) to characters, and returns their scores."""

    def build():
        inputs = {
            "tokens": tf.compat.v1.placeholder(tf.string, [None, None]),
            "num_tokens": tf.compat.v1.placeholder(tf.int32, [None]),
        }
        characters = cascade.convert(language, **inputs)
        return inputs, {"text": sequences.join(characters, "syllable"), "score": characters.scores}

    with running([language], build) as model:

        def convert_sentences(sentences, extra=0):
            longest = max(map(len, sentences)) + extra
            tokens = np.array([[*row, *["ni3"] * (longest - len(row))] for row in sentences], object)
            lengths = np.int32([len(row) for row in sentences])
            result = model.run({"tokens": tokens.reshape(len(sentences), longest), "num_tokens": lengths})
            return [text.split() for text in result["text"]], result["score"]

        yield convert_sentences


@pytest.fixture(scope="module")
def convert(models):
    with converting(models[1]) as convert_sentences:
        yield convert_sentences


@pytest.fixture(scope="module")
def fbanks(tiny_export):
    return [tiny_models.extract(waveform) for *_, waveform in tiny_export.utterances.values()]


def make_batch(fbanks, extra=0):
    """Pads the features with 7s instead of zeros, because the values of padding must not matter."""
    longest = max(map(len, fbanks)) + extra
    rows = [np.pad(fbank, ((0, longest - len(fbank)), (0, 0)), constant_values=7) for fbank in fbanks]
    return {"fbank": np.stack(rows), "num_frames": np.int32([len(fbank) for fbank in fbanks])}


def test_batch_and_padding_change_nothing(whole, fbanks):
    alone = [whole.run(make_batch([fbank])) for fbank in fbanks]
    together = whole.run(make_batch(fbanks, extra=37))
    for name in ("transcript", "pinyin"):
        assert together[name] == [result[name][0] for result in alone]
    assert len(set(together["pinyin"])) > 3  # the model distinguishes the utterances
    for name in ("acoustic_score", "language_score"):
        scores = [result[name][0] for result in alone]
        np.testing.assert_allclose(together[name], scores, rtol=1e-4, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("encoder", ["transformer", "cnn"])
def test_other_encoders_ignore_batch_and_padding_too(tmp_path, fbanks, encoder):
    acoustic = tiny_models.make_acoustic_model(str(tmp_path / "am"), encoder=encoder)
    with running([acoustic], lambda: build_cascade(acoustic, None)) as model:
        empty = np.zeros([0, tiny_models.FRONTEND.num_bins], np.float32)
        together = model.run(make_batch([*fbanks, empty], extra=37))
        assert together["pinyin"][:-1] == [model.run(make_batch([fbank]))["pinyin"][0] for fbank in fbanks]
        assert together["pinyin"][-1] == model.run(make_batch([empty]))["pinyin"][0] == ""


def test_each_character_has_its_pinyin_times_and_confidence(whole, fbanks):
    result = whole.run(make_batch(fbanks))
    for items, text, pinyin, score in zip(
        *(result[name] for name in ("characters", "transcript", "pinyin", "confidence"))
    ):
        assert "".join(item["character"] for item in items) == text
        assert " ".join(item["pinyin"] for item in items) == pinyin
        times = [item[name] for item in items for name in ("start", "end")]
        assert times == sorted(times) and all(item["start"] < item["end"] for item in items)
        assert score == pytest.approx(np.mean([item["confidence"] for item in items]), rel=1e-5)
        assert 0 < min(item["confidence"] for item in items) and max(item["confidence"] for item in items) < 1


def test_times_are_in_seconds_from_the_start_of_the_recording(whole, fbanks):
    """The encoder's frame shift is 40 ms, four times that of the features."""
    items = whole.run(make_batch(fbanks[3:4]))["characters"][0]
    frames = np.array([[item["start"], item["end"]] for item in items]) / 0.04
    np.testing.assert_allclose(frames, np.round(frames), atol=1e-4)
    assert 0 <= frames[0, 0] and frames[-1, 1] <= np.ceil(len(fbanks[3]) / 4)


def test_the_transcript_is_the_best_of_the_n_best(whole, fbanks):
    result = whole.run(make_batch(fbanks))
    for items, text in zip(result["n_best"], result["transcript"]):
        texts, scores = ([item[name] for item in items] for name in ("transcript", "score"))
        assert texts[0] == text and len(set(texts)) == len(texts) > 1
        assert scores == sorted(scores, reverse=True)


@pytest.mark.long
def test_greedy_pinyin_is_the_best_path_of_ctc(models, whole, fbanks):
    greedy = dataclasses.replace(models[0], decode=config.DecodeConfig(decoding="greedy"))
    with running(models[:1], lambda: build_cascade(greedy, None)) as model:
        expected = model.run(make_batch(fbanks))
    assert expected["greedy_pinyin"] == expected["pinyin"]
    assert whole.run(make_batch(fbanks))["greedy_pinyin"] == expected["pinyin"]


@pytest.mark.long
def test_greedy_decoding_of_no_frames(models):
    greedy = dataclasses.replace(models[0], decode=config.DecodeConfig(decoding="greedy"))
    with running(models, lambda: build_cascade(greedy, models[1])) as model:
        for max_frames in (0, 9):
            fbank = np.zeros([2, max_frames, tiny_models.FRONTEND.num_bins], np.float32)
            result = model.run({"fbank": fbank, "num_frames": np.int32([0, 0])})
            assert result["transcript"] == result["pinyin"] == ["", ""], max_frames
            assert result["characters"] == [[], []], max_frames


@pytest.mark.parametrize("max_frames", [0, 1, 9])
def test_no_frames_give_empty_text_and_score_zero(whole, max_frames):
    fbank = np.zeros([2, max_frames, tiny_models.FRONTEND.num_bins], np.float32)
    result = whole.run({"fbank": fbank, "num_frames": np.int32([0, 0])})
    assert result["transcript"] == result["pinyin"] == result["greedy_pinyin"] == ["", ""]
    assert result["acoustic_score"] == result["language_score"] == result["confidence"] == [0.0, 0.0]
    assert result["characters"] == [[], []]
    assert result["n_best"] == [[{"transcript": "", "score": 0.0}]] * 2


@pytest.mark.long
def test_without_language_model_the_transcript_is_the_tokens(models, fbanks):
    with running(models[:1], lambda: build_cascade(models[0], None)) as model:
        result = model.run(make_batch(fbanks[3:4]))
    assert result["transcript"] == result["pinyin"] != [""]
    assert result["language_score"] == [0.0]


def test_convert_reads_tokens_of_its_vocabulary_and_others_as_unknown(convert):
    texts, _ = convert([["qi4", "zi4"], ["ma5"], ["<unk>"]])
    assert texts[0] == ["气", "字"]  # their only readings
    assert texts[1] == texts[2]


def test_letters_that_the_language_model_lacks_are_copied(convert):
    texts, _ = convert([["qi4", "s", "a1", "zi4"], ["apple", "zi4"]])
    unknown = texts[0].pop(2)  # a1, which is a syllable
    assert texts[0] == ["气", "s", "字"] and unknown != "a1"
    assert texts[1] == ["apple", "字"]


def test_letters_of_toneless_models(models):
    """A capital letter is not a syllable; if the language model lacks it, it is copied in lower case."""
    toneless = dataclasses.replace(models[1].config, token_type="toneless")
    with converting(dataclasses.replace(models[1], config=toneless)) as convert_sentences:
        (letter, syllable, unknown), _ = convert_sentences([["S"], ["ma"], ["<unk>"]])
    assert letter == ["s"] and syllable == unknown != ["ma"]


def test_convert_ignores_batch_and_padding(convert):
    sentences = [["hao3", "ni3", "hao3"], ["hao3"], [], ["ni3", "tian1", "hao3", "hao3", "qi4"]]
    texts, scores = convert(sentences, extra=4)
    for sentence, text, score in zip(sentences, texts, scores):
        (alone,), (score_alone,) = convert([sentence])
        assert text == alone
        assert score == pytest.approx(score_alone, abs=1e-5)
    assert (texts[2], scores[2]) == ([], 0.0)


def join_in_graph(rows, token_type):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        strings = tf.ragged.constant(rows, dtype=tf.string, ragged_rank=1)
        lengths = tf.cast(strings.row_lengths(), tf.int32)
        tokens = sequences.Sequences(strings.to_tensor(), lengths, None, None)
        joined = session.run(sequences.join(tokens, token_type))
    return [text.decode() for text in joined]


def test_join_puts_spaces_where_people_do():
    rows = [["hao3", "ma5"], [], ["a", "<space>", "b"]]
    assert join_in_graph(rows, "syllable") == ["hao3 ma5", "", "a <space> b"]
    assert join_in_graph(rows, "character") == ["hao3ma5", "", "a b"]
    assert join_in_graph([["▁the", "▁c", "at"]], "bpe") == ["the cat"]
    assert join_in_graph([["zh", "ong1", "iou3", "ê4"]], "initial_final") == ["zhong1 you3 ê4"]


@pytest.mark.parametrize("token_type", vocabulary.TOKEN_TYPES)
def test_the_graph_joins_as_python_does(token_type):
    """RE2, which TensorFlow uses, and Python's re join random tokens in the same way."""
    parts = [f"{final}{er}{tone}" for final in syllables.FINALS for er in ("", "r") for tone in "15"]
    pieces = ["▁", "▁the", "cat", "<space>", "<unk>", "A", "犇", "3", "HH", "r5", "zhuang4", "wo3"]
    tokens = [*syllables.INITIALS[1:], *parts, *pieces]
    rng = np.random.RandomState(1)
    rows = [list(rng.choice(tokens, size)) for size in (0, 1, 2, 5, 3000)]
    orderly = [token for part in parts for initial in syllables.INITIALS[1:] for token in (initial, part)]
    rows.append([*orderly, *parts])
    assert join_in_graph(rows, token_type) == [vocabulary.join_tokens(row, token_type) for row in rows]


@pytest.mark.long
def test_transcripts_equal_predictions_of_the_estimator(models, fbanks):
    acoustic, batch = models[0], make_batch(fbanks)

    def build():
        features = make_placeholders()
        return features, model_fn.build_model_fn(acoustic)(features, None, "infer").predictions

    with running([acoustic], build) as model:
        ids, scores = model.session.run(
            [model.outputs["token_ids"], model.outputs["score"]],
            {tensor: batch[name] for name, tensor in model.inputs.items()},
        )
    with running([acoustic], lambda: build_cascade(acoustic, None)) as model:
        result = model.run(batch)
    assert result["pinyin"] == [" ".join(acoustic.tokens.decode(row[row >= 0])) for row in ids]
    np.testing.assert_allclose(result["acoustic_score"], scores, rtol=1e-5)


def test_conversions_equal_predictions_of_the_estimator(models, convert):
    language, sentence = models[1], ["hao3", "ni3", "qi4", "hao3"]

    def build():
        features = {
            "token_ids": tf.constant([language.tokens.encode(sentence)]),
            "num_tokens": tf.constant([4]),
        }
        return {}, model_fn.build_model_fn(language)(features, None, "infer").predictions

    with running([language], build) as model:
        ids, score = model.session.run([model.outputs["character_ids"], model.outputs["score"]])
    (text,), (own_score,) = convert([sentence])
    assert text == language.characters.decode(ids[0])
    assert own_score == pytest.approx(score[0], rel=1e-5)


@pytest.mark.long
def test_model_of_characters_writes_characters(tmp_path, fbanks):
    tokens = vocabulary.Vocabulary(["<unk>", "<space>", "e", "n", "o"])
    acoustic = tiny_models.make_acoustic_model(str(tmp_path / "am"), tokens, token_type="character")
    with running([acoustic], lambda: build_cascade(acoustic, None)) as model:
        result = model.run(make_batch(fbanks))
    expected = [vocabulary.join_tokens(text.split(), "character") for text in result["pinyin"]]
    assert result["transcript"] == expected
    assert len("".join(expected)) > 5


@pytest.mark.long
def test_initials_and_finals_become_syllables_before_the_language_model(tmp_path, models, convert, fbanks):
    tokens = vocabulary.Vocabulary(["<unk>", "h", "ao3", "n", "i3", "q", "i4", "z", "-i4"])
    acoustic = tiny_models.make_acoustic_model(str(tmp_path / "am"), tokens, token_type="initial_final")
    empty = np.zeros([0, tiny_models.FRONTEND.num_bins], np.float32)
    with running([acoustic, models[1]], lambda: build_cascade(acoustic, models[1])) as model:
        result = model.run(make_batch([*fbanks, empty]))
        assert model.run(make_batch([empty]))["transcript"] == [""]
    spoken = [vocabulary.join_tokens(text.split(), "initial_final").split() for text in result["pinyin"]]
    assert [[item["pinyin"] for item in items] for items in result["characters"]] == spoken
    assert any(len(words) < len(text.split()) for words, text in zip(spoken, result["pinyin"]))
    texts, scores = convert(spoken)
    assert ["".join(text) for text in texts] == result["transcript"]
    np.testing.assert_allclose(result["language_score"], scores, atol=1e-4)
