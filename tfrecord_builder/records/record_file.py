"""TFRecord files, record by record: where each lies, and whether its checksums hold.

A record is uint64 length, uint32 CRC of the length, the data, uint32 CRC of the data, all little-endian
(tensorflow/core/lib/io/record_writer.h). TensorFlow's own reader stops at the first damage; this one says
what and where, and goes on as long as it knows where the next record begins.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Iterator
from typing import BinaryIO, Optional

import google_crc32c

_HEADER_BYTES = 12
_FOOTER_BYTES = 4
_BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class RawRecord:
    """One record of a file.

    Attributes:
      number: from 0.
      offset: byte at which its header begins.
      data: what it holds; None where the file ends within it or its length cannot be believed: then no other
        record follows.
      problem: what is wrong with it, empty if nothing is.
    """

    number: int
    offset: int
    data: Optional[bytes]
    problem: str = ""


class RecordFile:
    """A TFRecord file that is read once, from front to back.

    Attributes:
      num_bytes: how many were read so far.
    """

    def __init__(self, file: BinaryIO):
        self.num_bytes = 0
        self._file = file
        self._digest = hashlib.sha256()

    def records(self) -> Iterator[RawRecord]:
        """Yields the records; damaged ones too."""
        number, is_sure = 0, True
        while is_sure:
            record = self._next(number)
            if record is None:
                return
            yield record
            number, is_sure = number + 1, record.data is not None

    def finish(self) -> str:
        """Reads what is left; gives the sha256 of the whole file in hex."""
        while self._read(_BLOCK_BYTES):
            pass
        return self._digest.hexdigest()

    def _next(self, number: int) -> Optional[RawRecord]:
        offset = self.num_bytes
        header = self._read(_HEADER_BYTES)
        if not header:
            return None
        problem = _header_problem(header)
        if problem:
            return RawRecord(number, offset, None, problem)
        (length,) = struct.unpack_from("<Q", header)
        body = self._read_long(length + _FOOTER_BYTES)
        if len(body) < length + _FOOTER_BYTES:
            problem = f"file ends after {len(body)} of its {length + _FOOTER_BYTES} bytes"
            return RawRecord(number, offset, None, problem)
        data = body[:length]
        return RawRecord(number, offset, data, _crc_problem("data", data, body[length:]))

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.num_bytes += len(data)
        self._digest.update(data)
        return data

    def _read_long(self, size: int) -> bytes:
        """Reads in blocks: a wrong length with a right checksum must not take all memory."""
        if size <= _BLOCK_BYTES:
            return self._read(size)
        blocks = []
        while size and (block := self._read(min(size, _BLOCK_BYTES))):
            blocks.append(block)
            size -= len(block)
        return b"".join(blocks)


def _header_problem(header: bytes) -> str:
    if len(header) < _HEADER_BYTES:
        return f"file ends after {len(header)} of the {_HEADER_BYTES} bytes of its header"
    return _crc_problem("length", header[:8], header[8:])


def _crc_problem(what: str, data: bytes, stored: bytes) -> str:
    expected, found = masked_crc(data), int.from_bytes(stored, "little")
    return "" if expected == found else f"CRC of its {what} is {found:08x}, expected {expected:08x}"


def masked_crc(data: bytes) -> int:
    """Gives the CRC32C of data as TFRecord files store it: rotated and shifted (lib/hash/crc32c.h, Mask)."""
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
