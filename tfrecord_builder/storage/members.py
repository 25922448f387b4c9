"""Members of archives: speech.ark:17 begins at byte 17 (as in Kaldi), shard.tar:1536+32044 begins at byte
1536 and has 32044 bytes.
"""

from __future__ import annotations

import dataclasses
import errno
import re
import struct
import tempfile
from typing import BinaryIO, Optional

_NAME = re.compile(r"(.+):(\d{1,15})(?:\+(\d{1,15}))?", re.DOTALL)
_UNKNOWN_LENGTH = 0x7FFF0000  # WAV files written to a pipe have this length or more (see audio_stream.py)
_BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Member:
    """A part of an archive; num_bytes is None if the length is in the header of the member."""

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
    """Copies a member to a temporary file. The archive must be open, at the start of the member.

    Raises:
        OSError: the length is neither in the member's name nor in a WAV or kaldiio header.
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
    """Returns the bytes of the member that were read to find its length, and how many bytes follow them."""
    head = file.read(8)
    if head[:4] == b"RIFF" and len(head) == 8:
        num_bytes = struct.unpack("<I", head[4:])[0]
        if num_bytes + 8 >= _UNKNOWN_LENGTH:
            raise OSError(errno.EINVAL, "the WAV in the archive has no length", str(member))
        return head, num_bytes
    if head[:5] == b"AUDIO" and len(head) == 8:  # kaldiio writes the size of the length, then the length
        length = head[6:] + file.read(max(0, head[5] - 2))
        return b"", int.from_bytes(length, "little")
    raise OSError(errno.EINVAL, f"no WAV begins at byte {member.offset} of the archive", str(member))
