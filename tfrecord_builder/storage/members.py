"""Members of archives: speech.ark:17 begins at byte 17 (as in Kaldi), shard.tar:1536+32044 has 32044 bytes
from byte 1536 on.
"""

from __future__ import annotations

import dataclasses
import errno
import re
import struct
import tempfile
from typing import BinaryIO, Optional

_NAME = re.compile(r"(.+):(\d{1,15})(?:\+(\d{1,15}))?", re.DOTALL)
_UNKNOWN_LENGTH = 0x7FFF0000  # of a WAV that was written to a pipe: see audio_stream.py
_BLOCK_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Member:
    """A part of a file; num_bytes is None if its own header has the length."""

    path: str
    offset: int
    num_bytes: Optional[int]

    def __str__(self) -> str:
        return f"{self.path}:{self.offset}" + ("" if self.num_bytes is None else f"+{self.num_bytes}")


def parse(name: str) -> Optional[Member]:
    """Parses a name; returns None if it is that of a file."""
    match = _NAME.fullmatch(name)
    return Member(match[1], int(match[2]), int(match[3]) if match[3] else None) if match else None


def copy(file: BinaryIO, member: Member) -> BinaryIO:
    """Copies a member to a temporary file from an archive that is open at the start of the member.

    Raises:
        OSError: the length is unknown: it is neither in the name nor in the header of a WAV or of kaldiio.
    """
    copied = tempfile.TemporaryFile()
    left = _copy_head(file, copied, member) if member.num_bytes is None else member.num_bytes
    while left > 0:
        block = file.read(min(left, _BLOCK_BYTES))
        if not block:  # the archive is truncated
            break
        copied.write(block)
        left -= len(block)
    copied.seek(0)
    return copied


def _copy_head(file: BinaryIO, copied: BinaryIO, member: Member) -> int:
    """Copies the head of an audio file; returns how many bytes follow."""
    head = file.read(8)
    if head[:4] == b"RIFF" and len(head) == 8:
        num_bytes = struct.unpack("<I", head[4:])[0]
        if num_bytes + 8 >= _UNKNOWN_LENGTH:
            raise OSError(errno.EINVAL, "the WAV in the archive has no length", str(member))
        copied.write(head)
        return num_bytes
    if head[:5] == b"AUDIO" and len(head) == 8:  # kaldiio: size of the length, and the length
        length = head[6:] + file.read(max(0, head[5] - 2))
        return int.from_bytes(length, "little")
    raise OSError(errno.EINVAL, f"no WAV begins at byte {member.offset} of the archive", str(member))
