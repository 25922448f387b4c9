import hashlib
import io
import struct

import pytest
import tensorflow as tf

from tfrecord_builder.building.records import record_file
from tfrecord_builder.data import schema

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
    reader = record_file.RecordFile(io.BytesIO(content))
    return list(reader.records()), reader.finish()


def test_a_file_of_tensorflow_is_read(written):
    records, sha256 = _read(written)
    expected = [record_file.RawRecord(i, OFFSETS[i], DATA[i]) for i in range(4)]
    assert records == expected
    assert sha256 == hashlib.sha256(written).hexdigest()
    assert _read(b"") == ([], hashlib.sha256(b"").hexdigest())


def test_damaged_data_is_named_and_the_others_are_read(written):
    flipped = bytearray(written)
    flipped[OFFSETS[0] + 12] ^= 4
    flipped[OFFSETS[2] + 12 + 2_000_000] ^= 1
    flipped[-1] ^= 128  # the CRC itself
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
    assert sha256 == hashlib.sha256(bytes(flipped)).hexdigest()  # of the whole file all the same


@pytest.mark.parametrize(
    "kept, message",
    [
        (21 + 5, "file ends after 5 of the 12 bytes of the header"),
        (37 + 12 + 1_500_000, "file ends after 1500000 of the 3000004 bytes of the record"),
        (3_000_053 + 12 + 4, "file ends after 4 of the 8 bytes of the record"),
    ],
)
def test_a_truncated_file(written, kept, message):
    records, _ = _read(written[:kept])
    assert (records[-1].problem, records[-1].data) == (message, None)
    assert all(not record.problem for record in records[:-1])


def test_bytes_after_the_last_record_are_a_problem(written):
    records, _ = _read(written + b"rest")
    assert records[-1].problem == "file ends after 4 of the 12 bytes of the header"
    assert records[-1].offset == len(written)


def test_a_huge_length_with_a_valid_checksum_is_a_problem():
    length = struct.pack("<Q", 1 << 60)
    header = length + struct.pack("<I", schema.masked_crc(length))
    records, _ = _read(header + b"abc")
    problem = f"length is {1 << 60} bytes, expected less than {1 << 31}"
    assert records == [record_file.RawRecord(0, 0, None, problem)]
