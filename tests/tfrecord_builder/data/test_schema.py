import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tfrecord_builder.data import schema

FBANK = np.arange(6, dtype=np.float16).reshape(3, 2) / 4
RECORD = schema.Record(
    utterance_id="a1",
    speaker="s7",
    transcript="你好",
    pronunciation="ni3 hao3",
    token_ids=[5, 3],
    character_ids=[9, 8],
    fbank=FBANK,
    duration_ms=45,
)
TEXT = schema.Record("t1", "", "好", "hao3", [3], [8])
MARKED = dataclasses.replace(TEXT, mark_ids=[2], written="好。")


def parse(*serialized, **options):
    return list(schema.parse_records(serialized, **options))


def test_parsing_returns_what_was_written():
    (example,) = parse(schema.make_example(RECORD), num_bins=2)
    lists = {"token_ids", "character_ids", "num_tokens", "num_characters"}
    texts = {"utterance_id", "speaker", "transcript", "pronunciation"}
    assert set(example) == {*lists, *texts, "fbank", "num_frames", "duration_ms"}
    assert example["utterance_id"] == b"a1" and example["speaker"] == b"s7"
    assert example["transcript"] == "你好".encode() and example["pronunciation"] == b"ni3 hao3"
    assert example["token_ids"].tolist() == [5, 3] and example["character_ids"].tolist() == [9, 8]
    counts = [example[key] for key in ("num_tokens", "num_characters", "num_frames", "duration_ms")]
    assert counts == [2, 2, 3, 45]
    assert {example[key].dtype for key in ("token_ids", "num_tokens", "num_frames")} == {np.dtype(np.int32)}
    assert example["fbank"].dtype == np.float32
    np.testing.assert_array_equal(example["fbank"], FBANK.astype(np.float32))


def test_float32_features_keep_their_precision():
    fbank = np.array([[0.1, 1e-20]], np.float32)
    serialized = schema.make_example(schema.Record("a", "", "", "", [], [], fbank, 25))
    (example,) = parse(serialized, num_bins=2, fbank_dtype="float32")
    np.testing.assert_array_equal(example["fbank"], fbank)


def test_stored_features_are_little_endian_rows():
    example = tf.train.Example.FromString(schema.make_example(RECORD))
    assert example.features.feature["fbank"].bytes_list.value[0] == FBANK.astype("<f2").tobytes()
    for other in (np.asfortranarray(FBANK), FBANK.astype(">f2"), np.repeat(FBANK, 2, axis=1)[:, ::2]):
        serialized = schema.make_example(dataclasses.replace(RECORD, fbank=other))
        assert serialized == schema.make_example(RECORD)


def test_a_text_record_has_no_acoustic_keys():
    example = tf.train.Example.FromString(schema.make_example(TEXT))
    names = ["character_ids", "pronunciation", "speaker", "token_ids", "transcript", "utterance_id"]
    assert sorted(example.features.feature) == names
    assert parse(schema.make_example(TEXT))[0]["token_ids"].tolist() == [3]


def test_acoustic_records_can_be_parsed_without_features():
    text, acoustic = parse(schema.make_example(TEXT), schema.make_example(RECORD))
    assert sorted(text) == sorted(acoustic) and "fbank" not in acoustic
    assert acoustic["num_characters"] == 2


def test_empty_lists_are_parsed():
    (example,) = parse(schema.make_example(schema.Record("a", "", "", "", [], [])))
    assert example["token_ids"].shape == (0,) and example["num_tokens"] == 0


def test_same_record_gives_the_same_bytes_with_keys_in_order():
    serialized = schema.make_example(RECORD)
    assert serialized == schema.make_example(schema.Record(**vars(RECORD)))
    keys = [b"character_ids", b"duration_ms", b"fbank", b"num_frames", b"pronunciation", b"utterance_id"]
    places = [serialized.index(key) for key in keys]
    assert places == sorted(places)


def test_parsing_keeps_the_order():
    records = [schema.make_example(schema.Record(str(index), "", "", "", [], [])) for index in range(300)]
    assert [int(example["utterance_id"]) for example in parse(*records)] == list(range(300))


def test_features_of_a_wrong_size_are_refused_and_the_utterance_is_named():
    message = "utterance a1: fbank has 12 bytes, expected 18 for 3 frames of 3 float16 numbers; build the dat"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        parse(schema.make_example(RECORD), num_bins=3)


def test_parsing_in_a_graph_checks_the_size_of_features_too():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        serialized = tf.compat.v1.placeholder(tf.string, [None])
        batch = schema.parse_batch(serialized, num_bins=2, fbank_dtype="float32")
        assert batch["fbank"].shape.as_list() == [None, None, 2]
        message = "utterance a1: fbank has 12 bytes, expected 24"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(batch["fbank"], {serialized: [schema.make_example(RECORD)]})


@pytest.mark.parametrize("fbank", [np.zeros([3, 2]), np.zeros(6, np.float16)])
def test_features_of_a_wrong_dtype_or_rank_are_not_written(fbank):
    with pytest.raises(ValueError, match="a1: fbank is float.*, expected a float16 or float32 matrix"):
        schema.make_example(dataclasses.replace(RECORD, fbank=fbank))


def test_shard_name():
    assert schema.shard_name("train", 3, 16) == "train-00003-of-00016.tfrecord"


def test_a_batch_is_padded_to_its_longest_with_zeros():
    short = dataclasses.replace(RECORD, fbank=FBANK[:1], token_ids=[7], character_ids=[])
    batch = schema.parse_batch(tf.constant([schema.make_example(short), schema.make_example(RECORD)]), 2)
    assert batch["fbank"].shape == (2, 3, 2)
    np.testing.assert_array_equal(batch["fbank"][0, :1], FBANK[:1])
    assert not batch["fbank"][0, 1:].numpy().any()
    np.testing.assert_array_equal(batch["fbank"][1], FBANK)
    assert batch["token_ids"].numpy().tolist() == [[7, 0], [5, 3]]
    assert batch["character_ids"].numpy().tolist() == [[0, 0], [9, 8]]
    numbers = [batch[key].numpy().tolist() for key in ("num_tokens", "num_characters", "num_frames")]
    assert numbers == [[1, 2], [0, 2], [1, 3]]


def test_a_batch_without_records_has_no_rows():
    batch = schema.parse_batch(tf.constant([], tf.string), 2)
    assert batch["fbank"].shape == (0, 0, 2) and batch["token_ids"].shape == (0, 0)


@pytest.mark.parametrize(
    "key, want", [("num_frames", [3, 3]), ("num_tokens", [2, 0]), ("num_characters", [2, 2])]
)
def test_a_serialised_record_is_counted_without_parsing_it(key, want):
    without = dataclasses.replace(RECORD, token_ids=[])
    assert [schema.count(schema.make_example(record), key) for record in (RECORD, without)] == want


def test_a_record_equals_a_literal_example_byte_for_byte():
    record = schema.Record("u", "", "", "你", [], [], np.zeros([1, 2], np.float16), 10)
    texts = {"utterance_id": "u", "speaker": "", "transcript": "", "pronunciation": "你"}
    values = {
        **{key: dict(bytes_list=tf.train.BytesList(value=[text.encode()])) for key, text in texts.items()},
        "token_ids": dict(int64_list=tf.train.Int64List(value=[])),
        "character_ids": dict(int64_list=tf.train.Int64List(value=[])),
        "fbank": dict(bytes_list=tf.train.BytesList(value=[bytes(4)])),
        "num_frames": dict(int64_list=tf.train.Int64List(value=[1])),
        "duration_ms": dict(int64_list=tf.train.Int64List(value=[10])),
    }
    feature = {key: tf.train.Feature(**value) for key, value in values.items()}
    whole = tf.train.Example(features=tf.train.Features(feature=feature))
    assert schema.make_example(record) == whole.SerializeToString(deterministic=True)


def test_marks_and_the_written_text_are_stored_only_if_there_are_any():
    names = {"mark_ids", "written"}
    for record, want in ((TEXT, set()), (MARKED, names)):
        features = tf.train.Example.FromString(schema.make_example(record)).features.feature
        assert names & set(features) == want


def test_records_with_and_without_marks_are_parsed_together():
    plain, found = parse(schema.make_example(TEXT), schema.make_example(MARKED), with_marks=True)
    assert (plain["mark_ids"].tolist(), plain["num_marks"], plain["written"]) == ([], 0, b"")
    assert (found["mark_ids"].tolist(), found["num_marks"], found["written"]) == ([2], 1, "好。".encode())
    assert found["mark_ids"].dtype == found["num_marks"].dtype == np.int32
