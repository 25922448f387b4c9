"""Lists the chunks of WAV files, and repairs files whose header states 0 samples although samples follow."""

from __future__ import annotations

import mmap
import os
import re
import struct
from collections.abc import Iterator
from typing import BinaryIO, Optional

WARNING = "the header states 0 samples, but the file contains samples; all of them are read"
_UNKNOWN_SIZE, _MAX_CHUNKS = 0xFFFFFFFF, 128
_CHUNK_NAME = re.compile(rb"[ -~]{4}")


def list_chunks(wav: bytes | mmap.mmap) -> Iterator[tuple[bytes, int, int]]:
    """Yields each chunk's name, the offset of its contents, and the size in bytes that the header states."""
    start, large_size = 12, _UNKNOWN_SIZE
    for _ in range(_MAX_CHUNKS):
        if start + 8 > len(wav):
            return
        name, size = struct.unpack_from("<4sI", wav, start)
        if name == b"ds64":
            large_size = int.from_bytes(wav[start + 16 : start + 24], "little")
        elif name == b"data" and size == _UNKNOWN_SIZE:
            size = large_size
        yield name, start + 8, size
        start += 8 + size + size % 2


class _Map(mmap.mmap):
    def seek(self, offset: int, whence: int = os.SEEK_SET) -> None:
        """Seeks, but not past the end, because libsndfile skips the last pad byte even if it is missing."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: len(self)}[whence]
        super().seek(max(0, min(start + offset, len(self))))


def open_repaired(file: BinaryIO) -> Optional[mmap.mmap]:
    """Maps an unfinished WAV file into memory and corrects the size in its header.

    Returns None for other files, including files without samples in which the last chunk (such as LIST) ends
    exactly at the end of the file.
    """
    head = os.pread(file.fileno(), 12, 0)
    if head[:4] not in (b"RIFF", b"RF64", b"BW64") or head[8:] != b"WAVE":
        return None
    wav = _Map(file.fileno(), 0, access=mmap.ACCESS_COPY)
    place, end = 0, 0
    for name, start, size in list_chunks(wav):
        if place and not _CHUNK_NAME.fullmatch(name):
            break
        if name == b"data" and not place:
            if size:
                return None
            place = start - 4
        end = start + size + size % 2
    if not place or end - len(wav) in (0, 1):
        return None
    wav[:4] = b"RIFF"  # RF64 would mean that the size is stored elsewhere
    wav[place : place + 4] = struct.pack("<I", min(len(wav) - place - 4, _UNKNOWN_SIZE))
    return wav
