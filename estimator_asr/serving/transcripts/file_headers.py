"""Detects audio files in streams of raw samples, where they would be transcribed as noise."""

from __future__ import annotations

import re

from tfrecord_builder import errors

_STARTS = (
    rb"RIFF|RIFX|RF64|riff|FORM|caff|\.snd|NIST_1A|fLaC|OggS|ID3|.{4}ftyp|\x1a\x45\xdf\xa3|#!AMR|"
    rb"\x30\x26\xb2\x75|G@[\0\x11].{185}G|"  # WMA, MPEG-TS
)
# Four MP3 or AAC frames with the same first bytes; one speech stream in a million matches by chance.
_FRAMES = rb"(\xff[\xe2\xe3\xf0-\xf5\xf8-\xfd])[\x10-\xef](.{14,1450}?\1[\x10-\xef]){3}"
_FILE = re.compile(_STARTS + _FRAMES, re.DOTALL)
_MAX_HEAD_BYTES = 5000  # enough bytes to recognise a file
# The header of a mono WAV file with 16-bit samples.
_WAV = rb"\ARIFF.{4}WAVEfmt .{4}(\x01\x00|\xfe\xff)\x01\x00%b.{6}\x10\x00.*?data.{4}"


class HeaderFilter:
    """Passes raw samples on; removes the header of 16-bit mono WAV at `rate` Hz, and refuses other files."""

    def __init__(self, rate: int, where: str, advice: str):
        self._header = re.compile(_WAV % re.escape(rate.to_bytes(4, "little")), re.DOTALL)
        self._where, self._advice, self._head = where, advice, b""

    def take(self, content: bytes) -> bytes:
        """Returns the next bytes of the stream.

        Raises:
            errors.UserError: the stream begins like another audio file; the message ends with `advice`.
        """
        if not self._head:
            content = self._header.sub(b"", content)
        if len(self._head) < _MAX_HEAD_BYTES:
            self._head = (self._head + content)[:_MAX_HEAD_BYTES]
            if _FILE.match(self._head):
                problem = "begins like an audio file, but must be samples without a header"
                raise errors.UserError(f"{self._where} {problem}; {self._advice}")
        return content
