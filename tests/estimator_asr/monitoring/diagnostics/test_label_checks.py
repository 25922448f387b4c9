import dataclasses

import pytest
import small_checkpoints
import small_models
import small_records
import tensorflow as tf
from small_records import CHARACTERS, TOKENS

from estimator_asr.experiment import experiment, training_config
from estimator_asr.models import losses
from estimator_asr.monitoring.diagnostics import label_checks
from tfrecord_builder import errors


def make(tmp_path, model="acoustic", **options):
    path = str(tmp_path / "data")
    info = small_records.make_data(path, with_audio=model == "acoustic", **options)
    settings = experiment.ExperimentConfig.for_data(info, train=training_config.TrainConfig(model=model))
    return [info], [path], small_models.create_or_check(str(tmp_path / "model"), settings, path)


@pytest.mark.parametrize("model", ["acoustic", "language"])
def test_a_sample_of_correct_data_passes(tmp_path, model):
    label_checks.check_sample(*make(tmp_path, model))


def shift_labels(utterance, name="token_ids", by=1):
    """Returns a function that shifts the labels of records whose utterance id begins with `utterance`."""

    def change(record):
        ids = [each + by for each in getattr(record, name)]
        is_changed = record.utterance_id.startswith(utterance)
        return dataclasses.replace(record, **{name: ids}) if is_changed else record

    return change


@pytest.mark.parametrize("split", ["train", "dev"])
def test_wrong_labels_of_a_split_are_refused_with_shard_and_utterance(tmp_path, split):
    said = rf"{split}-00000-of-00002.tfrecord: utterance {split}000: token_ids is .* by \+1, .*; build"
    with pytest.raises(errors.UserError, match=said):
        label_checks.check_sample(*make(tmp_path, change=shift_labels(split)))


def test_the_characters_of_a_language_model_are_checked(tmp_path):
    with pytest.raises(errors.UserError, match=r"character_ids is .*, shifted by \+1"):
        label_checks.check_sample(*make(tmp_path, "language", change=shift_labels("", "character_ids")))


def test_the_sample_is_a_hundred_records_from_all_over_the_split(tmp_path, monkeypatch):
    made, seen = make(tmp_path, splits=[("train", 400)], num_shards=20), []
    monkeypatch.setattr(label_checks, "find_problem", lambda serialized, *_: seen.append(serialized))
    label_checks.check_sample(*made)
    features = [tf.train.Example.FromString(each).features.feature for each in seen]
    names = [row["utterance_id"].bytes_list.value[0] for row in features]
    # Record i is in shard i % 20; the sample uses shards 0, 2, 4 ... 18.
    assert len(seen) == 100 and {int(name[-3:]) % 20 for name in names} == {*range(0, 20, 2)}


def test_a_damaged_shard_is_refused(tmp_path):
    made = make(tmp_path)
    small_checkpoints.flip(tmp_path / "data" / "train-00000-of-00002.tfrecord", 100)
    with pytest.raises(errors.UserError, match="a shard of split train or dev is damaged"):
        label_checks.check_sample(*made)


def fail():
    """Raises the error of a training step with wrong labels."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        session.run(losses.check_labels(tf.constant([[1, 7]]), tf.constant([2]), 5))


def test_a_failed_step_names_the_utterance_with_the_wrong_label(tmp_path):
    made = make(tmp_path, change=shift_labels("train011", by=5))
    said = r"train-00001-of-00002.tfrecord: utterance train011: token_ids contains \d, expected 0 to 4"
    with pytest.raises(errors.UserError, match=said), label_checks.explain_wrong_labels(*made):
        fail()


def test_a_failed_step_with_correct_records_shows_the_ids(tmp_path):
    made, said = make(tmp_path), r"data: .*\[E_WRONG_LABEL: label out of range:\] \[1\] \[to\] \[7\]"
    with pytest.raises(errors.UserError, match=said), label_checks.explain_wrong_labels(*made):
        fail()


def test_other_errors_of_a_step_are_not_changed(tmp_path):
    with pytest.raises(tf.errors.InvalidArgumentError, match="something else"):
        with label_checks.explain_wrong_labels(*make(tmp_path)):
            raise tf.errors.InvalidArgumentError(None, None, "something else")


NI_HAO = {"utterance_id": "u1", "pronunciation": "ni3 hao3", "transcript": "你好"}  # ids 3 1, and 1 3
ONE_HOT = [0, 0, 0, 1, 0, 0, 1, 0, 0, 0]


def example(token_ids=(3, 1), character_ids=(1, 3), **texts):
    """Returns a serialised record; ids that are floats or bytes keep their type."""
    values = {name: [text.encode()] for name, text in {**NI_HAO, **texts}.items()}
    values.update(token_ids=token_ids, character_ids=character_ids)
    example = tf.train.Example()
    for name, items in values.items():
        kinds = {float: "float_list", bytes: "bytes_list"}
        kind = kinds.get(type(items[0]) if len(items) else int, "int64_list")
        getattr(example.features.feature[name], kind).value.extend(items)
    return example.SerializeToString()


def test_labels_that_match_their_text_are_correct():
    assert label_checks.find_problem(example(), TOKENS) == ""
    assert label_checks.find_problem(example(), TOKENS, CHARACTERS) == ""
    unknown = example(token_ids=[0, 1], pronunciation="xx1 hao3")
    assert label_checks.find_problem(unknown, TOKENS) == ""


@pytest.mark.parametrize(
    ("token_ids", "said"),
    [
        ([3.0, 1.0], "type of token_ids is float (3.0 1.0), expected int64"),
        ([b"ni3", b"hao3"], "type of token_ids is bytes (b'ni3' b'hao3'), expected int64"),
        (ONE_HOT, "token_ids is one-hot (10 numbers, of which 2 are 1), expected 3 1"),
        ([*ONE_HOT[:5], 0, *ONE_HOT[5:], 0], "token_ids is one-hot (12 numbers, of which 2 are 1)"),
        ([4, 2], "token_ids is 4 2, shifted by +1, expected 3 1"),
        ([2, 0], "token_ids is 2 0, shifted by -1, expected 3 1"),
        ([3, 5], "token_ids contains 5 (the blank), expected 0 to 4"),
        ([3, 9], "token_ids contains 9, expected 0 to 4"),
        ([3, -1], "token_ids contains -1, expected 0 to 4"),
        ([], "token_ids is empty, expected 3 1"),
        ([3, 2], "token_ids[1] is 2 (ma5), expected 1 (hao3), as in the record's text"),
        ([3], "token_ids[1] is missing, expected 1 (hao3), as in the record's text"),
        ([3, 1, 1], "token_ids[2] is 1 (hao3), expected no label, as in the record's text"),
        ([1] * 9, "token_ids[0] is 1 (hao3), expected 3 (ni3), as in the record's text"),
    ],
)
def test_wrong_tokens_are_described(token_ids, said):
    problem = label_checks.find_problem(example(token_ids), TOKENS)
    assert problem.startswith("utterance u1: ") and said in problem
    assert said in label_checks.find_problem(example(token_ids), TOKENS, CHARACTERS)


@pytest.mark.parametrize(
    ("character_ids", "said"),
    [
        ([1.0, 3.0], "type of character_ids is float (1.0 3.0), expected int64"),
        ([0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], "character_ids is one-hot (12 numbers, of which 2 are 1)"),
        ([2, 4], "character_ids is 2 4, shifted by +1, expected 1 3"),
        ([1, 6], "character_ids contains 6, expected 0 to 5"),
        ([1, 4], "character_ids[1] is 4 (是), expected 3 (好), as in the record's text"),
    ],
)
def test_wrong_characters_are_described_for_a_language_model(character_ids, said):
    wrong = example(character_ids=character_ids)
    assert said in label_checks.find_problem(wrong, TOKENS, CHARACTERS)
    assert label_checks.find_problem(wrong, TOKENS) == ""


def test_a_copy_without_words_has_no_labels():
    no_labels = example([], [], pronunciation="", transcript="")
    assert label_checks.find_problem(no_labels, TOKENS) == "utterance u1: token_ids is empty, expected ids"
    copy = example([], [], utterance_id="u1~wordless-music", pronunciation="", transcript="")
    assert label_checks.find_problem(copy, TOKENS, CHARACTERS) == ""
    labelled = example([9], utterance_id="u1~wordless-music", pronunciation="", transcript="")
    assert "u1~wordless-music: token_ids contains 9" in label_checks.find_problem(labelled, TOKENS)


def test_an_utterance_may_have_no_characters():
    assert label_checks.find_problem(example(character_ids=[]), TOKENS, CHARACTERS) == ""


def test_without_a_text_only_type_and_range_are_checked():
    for right in ([3, 1], [1]):
        assert label_checks.find_problem(example(right, pronunciation=""), TOKENS) == ""
    for wrong, said in ((ONE_HOT, "expected ids"), ([5], "the blank"), ([], "expected ids")):
        assert said in label_checks.find_problem(example(wrong, pronunciation=""), TOKENS)


def test_other_bytes_are_not_a_record():
    assert "is not a tf.train.Example" in label_checks.find_problem(b"\xff\xff", TOKENS)
