import dataclasses
import hashlib
import io
import struct

import numpy as np
import pytest
import tensorflow as tf

from tfrecord_builder.audio import frontend
from tfrecord_builder.building.verification import stored_records
from tfrecord_builder.data import schema, vocabulary

TOKENS = vocabulary.Vocabulary(["<unk>", "hao3", "ni3"])
CHARACTERS = vocabulary.Vocabulary(["<unk>", "你", "好"])
EXPECTED = stored_records.RecordSpec(TOKENS, CHARACTERS, frontend.FrontendConfig(), "float16")
TEXT = dataclasses.replace(EXPECTED, frontend=None)
FBANK = np.linspace(-5, 20, 48 * 80).astype(np.float16).reshape(48, 80)
RECORD = schema.Record("u1", "s", "你 好", "ni3 hao3", [2, 1], [1, 2], FBANK, 500)
TEXT_RECORD = dataclasses.replace(RECORD, fbank=None, duration_ms=0)


def _problems(expected=EXPECTED, **changes):
    return list(stored_records.problems(dataclasses.replace(RECORD, **changes), expected))


def _example(change, record=RECORD):
    example = tf.train.Example.FromString(schema.make_example(record))
    change(example.features.feature)
    return example.SerializeToString()


def test_a_record_of_the_builder_has_no_problems():
    found = stored_records.read_record(schema.make_example(RECORD), EXPECTED)
    np.testing.assert_array_equal(found.fbank, FBANK)
    assert dataclasses.replace(found, fbank=None) == dataclasses.replace(RECORD, fbank=None)
    assert list(stored_records.problems(found, EXPECTED)) == []


def test_text_has_no_features():
    found = stored_records.read_record(schema.make_example(TEXT_RECORD), TEXT)
    assert found == TEXT_RECORD
    assert list(stored_records.problems(found, TEXT)) == []
    message = "features are character_ids, .*, expected .*fbank"
    with pytest.raises(stored_records.DamagedRecordError, match=message):
        stored_records.read_record(schema.make_example(TEXT_RECORD), EXPECTED)
    with pytest.raises(stored_records.DamagedRecordError, match="features are .*fbank"):
        stored_records.read_record(schema.make_example(RECORD), TEXT)


def test_missing_characters_and_unknown_tokens_are_not_problems():
    assert _problems(character_ids=[]) == []
    assert _problems(token_ids=[0, 1], pronunciation="zai4 hao3") == []


def _set(feature, value):
    feature.int64_list.value[0] = value


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda f: f.pop("speaker"), "features are .*, expected .*speaker"),
        (lambda f: f["more"].int64_list.value.append(1), "features are .*more"),
        (
            lambda f: f["num_frames"].float_list.value.append(1.0),
            "num_frames has 0 int64_list values,",
        ),
        (lambda f: f["duration_ms"].Clear(), "duration_ms has 0 int64_list values, expected 1"),
        (
            lambda f: f["num_frames"].int64_list.value.append(1),
            "num_frames has 2 int64_list values,",
        ),
        (lambda f: f["transcript"].bytes_list.value.pop(), "transcript has 0 bytes_list values, expected 1"),
        (lambda f: f["speaker"].bytes_list.value.__setitem__(0, b"a\xff"), "speaker: byte 1 is not UTF-8"),
        (lambda f: _set(f["num_frames"], 47), "fbank has 7680 bytes, expected 7520 for 47 frames of 80"),
        (lambda f: _set(f["num_frames"], 0), "fbank has 7680 bytes, expected 0 for 0 frames"),
        (lambda f: _set(f["num_frames"], -48), "fbank has 7680 bytes, expected -7680"),
    ],
)
def test_a_record_with_other_features_is_damaged(change, message):
    with pytest.raises(stored_records.DamagedRecordError, match=message):
        stored_records.read_record(_example(change), EXPECTED)


def test_a_record_that_is_not_an_example_is_damaged():
    with pytest.raises(stored_records.DamagedRecordError, match="not a tf.train.Example"):
        stored_records.read_record(b"\xff\xff\xff", EXPECTED)


def test_the_utterance_id_of_a_damaged_record_is_read_if_possible():
    assert stored_records.utterance_id(_example(lambda f: f.pop("speaker"))) == "u1"
    assert stored_records.utterance_id(_example(lambda f: f.pop("utterance_id"))) == ""
    assert stored_records.utterance_id(b"\xff\xff\xff") == ""


def test_missing_token_ids_are_a_problem():
    found = stored_records.read_record(_example(lambda f: f["token_ids"].Clear()), EXPECTED)
    message = list(stored_records.problems(found, EXPECTED))
    assert message == [
        "number of tokens is 0, expected one or more",
        "token_ids do not match the labels 'ni3 hao3'",
    ]


def test_a_copy_without_words_has_no_labels():
    texts = {"transcript": "", "pronunciation": "", "token_ids": [], "character_ids": []}
    assert _problems(utterance_id="u1~wordless-music", **texts) == []
    assert _problems(**texts) == ["number of tokens is 0, expected one or more"]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"utterance_id": ""}, "utterance id is empty; ids must be unique"),
        ({"token_ids": [2, 3], "pronunciation": "ni3 x"}, "token_ids contains 3, expected 0 to 2"),
        ({"token_ids": [2, -1]}, "token_ids contains -1, expected 0 to 2"),
        ({"token_ids": [2, 2]}, "token_ids do not match the labels 'ni3 hao3'"),
        ({"character_ids": [1, 3]}, "character_ids contains 3, expected 0 to 2"),
        ({"character_ids": [2, 2]}, "character_ids do not match the labels '你 好'"),
        ({"fbank": np.where(FBANK == FBANK[7, 3], np.nan, FBANK).astype(np.float16)}, "first in frame 7"),
        ({"fbank": np.where(FBANK == FBANK[9, 3], np.inf, FBANK).astype(np.float32)}, "first in frame 9"),
        ({"duration_ms": 490}, "num_frames is 48, expected 47 for 490 ms"),
        ({"fbank": FBANK[:1], "duration_ms": 25}, "record is too short for its labels: 2 tokens, 1 frames"),
    ],
)
def test_problems_of_a_record(changes, message):
    assert any(message in each for each in _problems(**changes))


def test_num_frames_may_match_either_rounding_of_the_duration():
    at_the_edge = np.zeros([49, 80], np.float16), np.zeros([48, 80], np.float16)
    assert [_problems(fbank=fbank, duration_ms=505) for fbank in at_the_edge] == [[], []]
    (message,) = _problems(fbank=np.zeros([50, 80], np.float16), duration_ms=505)
    assert message == "num_frames is 50, expected 48 to 49 for 505 ms"


def test_long_texts_are_shortened():
    message = _problems(pronunciation="ni3 " * 30 + "hao3", token_ids=[2] * 31)
    assert "..." in message[0] and all(len(each) < 110 for each in message)


DATA = [b"first", b"", b"x" * 3_000_000, b"last"]
OFFSETS = [0, 21, 37, 3_000_053]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("records") / "a.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for data in DATA:
            writer.write(data)
    return path.read_bytes()


def _read(content):
    reader = stored_records.RecordFile(io.BytesIO(content))
    return list(reader.records()), reader.finish()


def test_a_file_of_tensorflow_is_read(written):
    records, sha256 = _read(written)
    expected = [stored_records.RawRecord(i, OFFSETS[i], DATA[i]) for i in range(4)]
    assert records == expected
    assert sha256 == hashlib.sha256(written).hexdigest()
    assert _read(b"") == ([], hashlib.sha256(b"").hexdigest())


def test_damaged_data_is_named_and_the_others_are_read(written):
    flipped = bytearray(written)
    flipped[OFFSETS[0] + 12] ^= 4
    flipped[OFFSETS[2] + 12 + 2_000_000] ^= 1
    flipped[-1] ^= 128  # a bit of the stored CRC
    records, sha256 = _read(bytes(flipped))
    assert [bool(record.problem) for record in records] == [True, False, True, True]
    right = schema.masked_crc(b"first")
    assert records[0].problem == f"CRC of its data is {right:08x}, expected " + (
        f"{schema.masked_crc(records[0].data):08x}"
    )
    assert records[0].data == b"birst" and records[1].data == b""
    assert sha256 == hashlib.sha256(bytes(flipped)).hexdigest()


@pytest.mark.parametrize("byte", [0, 7, 8, 11])
def test_a_damaged_length_ends_the_file(written, byte):
    flipped = bytearray(written)
    flipped[OFFSETS[1] + byte] ^= 64
    records, sha256 = _read(bytes(flipped))
    assert [record.problem[:17] for record in records] == ["", "CRC of its length"]
    assert records[1].data is None and records[1].offset == 21
    assert sha256 == hashlib.sha256(bytes(flipped)).hexdigest()  # the hash of the whole file


@pytest.mark.parametrize(
    "kept, message",
    [
        (21 + 5, "file ends after 5 of the header's 12 bytes"),
        (37 + 12 + 1_500_000, "file ends after 1500000 of the record's 3000004 bytes"),
        (3_000_053 + 12 + 4, "file ends after 4 of the record's 8 bytes"),
    ],
)
def test_a_truncated_file(written, kept, message):
    records, _ = _read(written[:kept])
    assert (records[-1].problem, records[-1].data) == (message, None)
    assert all(not record.problem for record in records[:-1])


def test_a_huge_length_with_a_valid_checksum_is_a_problem():
    length = struct.pack("<Q", 1 << 60)
    header = length + struct.pack("<I", schema.masked_crc(length))
    records, _ = _read(header + b"abc")
    problem = f"length is {1 << 60} bytes, expected less than {1 << 31}"
    assert records == [stored_records.RawRecord(0, 0, None, problem)]
