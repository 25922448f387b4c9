"""Reads TFRecord files record by record, reports each record's position, and verifies its checksums.

A record consists of a uint64 length, a uint32 CRC of the length, the data and a uint32 CRC of the data, all
little-endian (tensorflow/core/lib/io/record_writer.h). TensorFlow's own reader stops at the first error;
this one reports each error with its position, and continues as long as it knows where the next record starts.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Iterator
from typing import BinaryIO, Optional

from tfrecord_builder.data import schema

_HEADER_BYTES = 12
_FOOTER_BYTES = 4
_BLOCK_BYTES = 1 << 20
_MAX_BYTES = 1 << 31  # limit for a serialised tf.train.Example


@dataclasses.dataclass(frozen=True)
class RawRecord:
    """One record of a file."""

    number: int  # index in the file, starting from 0
    offset: int  # position of the header in bytes
    data: Optional[bytes]  # None if the file is truncated or the length is damaged; reading stops there
    problem: str = ""  # what is wrong with the record; empty if nothing is


class RecordFile:
    """Reads a TFRecord file once, from start to end; num_bytes is the number of bytes read so far."""

    def __init__(self, file: BinaryIO):
        self.num_bytes = 0
        self._file = file
        self._digest = hashlib.sha256()

    def records(self) -> Iterator[RawRecord]:
        """Yields the records, including damaged ones."""
        number, offset = 0, self.num_bytes
        while header := self._read(_HEADER_BYTES):
            data, problem = self._read_data(header)
            yield RawRecord(number, offset, data, problem)
            if data is None:
                return
            number, offset = number + 1, self.num_bytes

    def finish(self) -> str:
        """Reads the remaining bytes; returns the sha256 of the whole file in hex."""
        while self._read(_BLOCK_BYTES):
            pass
        return self._digest.hexdigest()

    def _read_data(self, header: bytes) -> tuple[Optional[bytes], str]:
        """Returns the data after a header (None if unreadable) and the problem with it (empty if none)."""
        if len(header) < _HEADER_BYTES:
            return None, f"file ends after {len(header)} of the {_HEADER_BYTES} bytes of the header"
        problem = _crc_problem("length", header[:8], header[8:])
        if problem:
            return None, problem
        (length,) = struct.unpack_from("<Q", header)
        if length >= _MAX_BYTES:
            return None, f"length is {length} bytes, expected less than {_MAX_BYTES}"
        body = self._read(length + _FOOTER_BYTES)
        if len(body) < length + _FOOTER_BYTES:
            return None, f"file ends after {len(body)} of the {length + _FOOTER_BYTES} bytes of the record"
        return body[:length], _crc_problem("data", body[:length], body[length:])

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.num_bytes += len(data)
        self._digest.update(data)
        return data


def _crc_problem(part: str, data: bytes, stored: bytes) -> str:
    crc, expected = int.from_bytes(stored, "little"), schema.masked_crc(data)
    return "" if crc == expected else f"CRC of its {part} is {crc:08x}, expected {expected:08x}"
