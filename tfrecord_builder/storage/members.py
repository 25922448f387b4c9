"""Reads files in archives: speech.ark:17 is the file that begins at byte 17 of speech.ark (as in Kaldi),
and shard.tar:1536+32044 is the file of 32,044 bytes that begins at byte 1536 of shard.tar.
"""

from __future__ import annotations

import dataclasses
import errno
import re
import struct
import tempfile
from typing import BinaryIO, Optional

_NAME = re.compile(r"(.+):(\d{1,15})(?:\+(\d{1,15}))?", re.DOTALL)
_UNKNOWN_LENGTH = 0x7FFF0000  # WAV files from a pipe state at least this length (see audio_stream.py)
_BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Member:
    """A file inside an archive; num_bytes is None if the member's own header states its length."""

    path: str
    offset: int
    num_bytes: Optional[int]

    def __str__(self) -> str:
        return f"{self.path}:{self.offset}" + ("" if self.num_bytes is None else f"+{self.num_bytes}")


def parse(name: str) -> Optional[Member]:
    """Parses the name of a member; returns None for the name of an ordinary file."""
    match = _NAME.fullmatch(name)
    return Member(match[1], int(match[2]), int(match[3]) if match[3] else None) if match else None


def copy(file: BinaryIO, member: Member) -> BinaryIO:
    """Copies a member to a temporary file; `file` must be the archive, positioned at the member's start.

    Raises OSError if neither the member's name nor a WAV or kaldiio header states the length.
    """
    head, remaining = _read_head(file, member) if member.num_bytes is None else (b"", member.num_bytes)
    copied = tempfile.TemporaryFile()
    copied.write(head)
    while remaining > 0:
        block = file.read(min(remaining, _BLOCK_BYTES))
        if not block:  # the archive is truncated
            break
        copied.write(block)
        remaining -= len(block)
    copied.seek(0)
    return copied


def _read_head(file: BinaryIO, member: Member) -> tuple[bytes, int]:
    """Reads a header to find a member's length; returns the part read and the number of remaining bytes."""
    head = file.read(8)
    if head[:4] == b"RIFF" and len(head) == 8:
        num_bytes = struct.unpack("<I", head[4:])[0]
        if num_bytes + 8 >= _UNKNOWN_LENGTH:
            raise OSError(errno.EINVAL, "the WAV file in the archive does not state its length", str(member))
        return head, num_bytes
    if head[:5] == b"AUDIO" and len(head) == 8:  # kaldiio writes the length field's size, then the length
        length = head[6:] + file.read(max(0, head[5] - 2))
        return b"", int.from_bytes(length, "little")
    raise OSError(errno.EINVAL, f"no WAV file begins at byte {member.offset} of the archive", str(member))
