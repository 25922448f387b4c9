"""Recognises a file where samples without a header are expected, so that none is transcribed as noise."""

from __future__ import annotations

import re
import struct

from tfrecord_builder import errors

_STARTS = (
    rb"RIFF|RIFX|RF64|riff|FORM|caff|\.snd|NIST_1A|fLaC|OggS|ID3|.{4}ftyp|\x1a\x45\xdf\xa3|#!AMR|"
    rb"\x30\x26\xb2\x75|G@[\0\x11].{185}G|"  # WMA, MPEG-TS
)
# Four frames of MP3 or AAC that begin alike; of a million streams of speech, one begins so.
_FRAMES = rb"(\xff[\xe2\xe3\xf0-\xf5\xf8-\xfd])[\x10-\xef](.{14,1450}?\1[\x10-\xef]){3}"
_FILE = re.compile(_STARTS + _FRAMES, re.DOTALL)
_MAX_HEAD_BYTES = 5000  # by which a file is recognised
_PCM, _EXTENSIBLE = 1, 0xFFFE  # formats of WAV files


class HeaderFilter:
    """Passes samples on, without the header of a WAV file of 16-bit mono samples at `rate` Hz."""

    def __init__(self, rate: int, where: str, advice: str):
        self._rate, self._where, self._advice = rate, where, advice
        self._head = b""

    def take(self, content: bytes) -> bytes:
        """Returns the next bytes of the stream.

        Raises:
            errors.UserError: the stream begins as another file does; the sentence ends with the advice.
        """
        if not self._head:
            content = self._strip(content)
        if len(self._head) < _MAX_HEAD_BYTES:
            self._head = (self._head + content)[:_MAX_HEAD_BYTES]
            if _FILE.match(self._head):
                problem = "begins as an audio file does, expected samples without a header"
                raise errors.UserError(f"{self._where}: {problem}; {self._advice}")
        return content

    def _strip(self, content: bytes) -> bytes:
        kind, *form = struct.unpack("<HHI6xH", content[20:36].ljust(16, b"\0"))
        if content[8:16] != b"WAVEfmt " or kind not in (_PCM, _EXTENSIBLE) or form != [1, self._rate, 16]:
            return content
        place = 12
        while content[place : place + 4] not in (b"data", b""):
            size = int.from_bytes(content[place + 4 : place + 8], "little")
            place += 8 + size + size % 2
        return content[place + 8 :] if place + 8 <= len(content) else content
