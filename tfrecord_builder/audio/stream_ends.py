"""Finds the audio that libsndfile leaves out at the end of an MP3, Ogg or FLAC file.

libsndfile stops after the number of samples that the header states or that it estimates from the size of an
MP3. If several files were concatenated, libsndfile reads only the first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO

_BLOCK_BYTES, _PATTERN_BYTES = 1 << 16, 8
_HEAD_BYTES = 1 << 20  # an MP3's header must start within these bytes; pictures may come first
_TAG_BYTES = 128  # size of an ID3v1 tag
# First bytes of a FLAC or Ogg stream, or of an MP3 frame (layer II or III).
_STARTS = {
    "FLAC": re.compile(rb"fLaC[\0\x80]\0\0\x22"),
    "MP3": re.compile(rb"\xff[\xe2-\xe5\xf2-\xf5\xfa-\xfd][\x10-\xef]"),
    "OGG": re.compile(rb"OggS\0[\2\3\6\7]"),
}
# The first frame of most MP3s states how many frames follow. If all flags are set (15), the frame also
# states the size in bytes and how many samples the encoder added at the start and end (12 bits each).
_INFO = re.compile(rb"\xff[\xe2-\xfd].{11,36}?(?:Xing|Info|VBRI)", re.DOTALL)
_WHOLE_INFO = re.compile(rb"(?:Xing|Info)\0\0\0\x0f.{4}(.{4}).{125}.(..)", re.DOTALL)


def find_trailing_audio(file: BinaryIO, kind: str, position: int) -> str:
    """Describes audio after byte `position`, where libsndfile stopped; returns "" if there is none."""
    if kind == "MP3":
        end = _find_tags(file)
        num_frames = sum(start < end for start in _find(file, kind, position))
        info = num_frames and _WHOLE_INFO.search(os.pread(file.fileno(), _HEAD_BYTES, 0))
        # The last frames may be only padding added by the encoder.
        num_padding = (int.from_bytes(info[2], "big") & 4095) // 576 if info else 0
        return "more frames follow" if num_frames > num_padding else ""
    if is_joined(file, kind):
        return "another stream follows"
    is_cut = kind == "FLAC" and _find_tags(file) > position
    return "more frames follow" if is_cut else ""


def is_joined(file: BinaryIO, kind: str) -> bool:
    """Returns True if an Ogg or FLAC file consists of several concatenated streams."""
    return kind in ("FLAC", "OGG") and len(list(_find(file, kind, 0))) > 1


def has_end(descriptor: int) -> bool:
    """Returns True if the last page of an open Ogg file is complete and has the end-of-stream flag."""
    start = max(os.fstat(descriptor).st_size - 2 * _BLOCK_BYTES, 0)  # an Ogg page has up to 65,307 bytes
    page = os.pread(descriptor, 2 * _BLOCK_BYTES, start).rpartition(b"OggS\0")[2]
    num_segments = page[21] if len(page) > 21 else 255
    return page[:1] >= b"\4" and len(page) >= 22 + num_segments + sum(page[22 : 22 + num_segments])


def is_longer_by_header(file: BinaryIO) -> bool:
    """Returns True if an MP3's header states more bytes than the file contains, or states no size."""
    head = os.pread(file.fileno(), _HEAD_BYTES, 0)
    info = _WHOLE_INFO.search(head)
    if info:
        return info.start() + int.from_bytes(info[1], "big") > os.fstat(file.fileno()).st_size + _TAG_BYTES
    return _INFO.search(head) is not None


def _find_tags(file: BinaryIO) -> int:
    """Returns the byte offset of the tags at the end (ID3v1, APEv2), which may seem to contain MP3 frames."""
    end = os.fstat(file.fileno()).st_size
    end -= _TAG_BYTES * (os.pread(file.fileno(), 3, max(end - _TAG_BYTES, 0)) == b"TAG")
    footer = os.pread(file.fileno(), 32, max(end - 32, 0))
    return end - (32 + int.from_bytes(footer[12:16], "little") if footer[:8] == b"APETAGEX" else 0)


def _find(file: BinaryIO, kind: str, start: int) -> Iterator[int]:
    """Yields the byte offsets, from `start` on, at which a stream or an MP3 frame seems to begin."""
    while block := os.pread(file.fileno(), _BLOCK_BYTES + _PATTERN_BYTES - 1, start):
        yield from (
            start + at for match in _STARTS[kind].finditer(block) if (at := match.start()) < _BLOCK_BYTES
        )
        start += _BLOCK_BYTES
