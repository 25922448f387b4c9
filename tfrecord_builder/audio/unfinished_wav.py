"""WAV files of recorders that were cut off: the header says 0 samples, and samples follow."""

from __future__ import annotations

import mmap
import os
import re
import struct
from typing import BinaryIO, Optional

WARNING = "its header says 0 samples, but samples follow; all are read up to the end of the file"
_UNKNOWN_SIZE, _MAX_CHUNKS = 0xFFFFFFFF, 128
_CHUNK_NAME = re.compile(rb"[ -~]{4}")


class _Map(mmap.mmap):
    def seek(self, offset: int, whence: int = os.SEEK_SET) -> None:
        """Stays within the file: libsndfile expects padding after an odd number of bytes."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: len(self)}[whence]
        super().seek(max(0, min(start + offset, len(self))))


def open_repaired(file: BinaryIO) -> Optional[mmap.mmap]:
    """Maps such a file with the true number in its header; returns None for other files.

    Those are files too in which chunks, such as LIST, follow the 0 samples and reach exactly to the end.
    """
    head = os.pread(file.fileno(), 12, 0)
    if head[:4] not in (b"RIFF", b"RF64", b"BW64") or head[8:] != b"WAVE":
        return None
    wav = _Map(file.fileno(), 0, access=mmap.ACCESS_COPY)
    start, place, large_size = 12, 0, _UNKNOWN_SIZE
    for _ in range(_MAX_CHUNKS):
        name, size = struct.unpack("<4sI", wav[start : start + 8].ljust(8, b"\xff"))
        if place and not _CHUNK_NAME.fullmatch(name):
            break
        if name == b"ds64":
            large_size = int.from_bytes(wav[start + 16 : start + 24], "little")
        elif name == b"data" and not place:
            place, size = start + 4, large_size if size == _UNKNOWN_SIZE else size
            if size:
                return None
        start += 8 + size + size % 2
    if not place or start - len(wav) in (0, 1):
        return None
    wav[:4] = b"RIFF"  # RF64 has the number elsewhere
    wav[place : place + 4] = struct.pack("<I", min(len(wav) - place - 4, _UNKNOWN_SIZE))
    return wav
