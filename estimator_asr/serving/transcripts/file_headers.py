"""Detects audio files in streams of raw samples, because a file would be transcribed as noise."""

from __future__ import annotations

import re
import struct

from tfrecord_builder import errors
from tfrecord_builder.audio import wav_header

_STARTS = (
    rb"RIFF|RIFX|RF64|riff|FORM|caff|\.snd|NIST_1A|fLaC|OggS|ID3|.{4}ftyp|\x1a\x45\xdf\xa3|#!AMR|"
    rb"\x30\x26\xb2\x75|G@[\0\x11].{185}G|"  # WMA, MPEG-TS
)
# Four MP3 or AAC frames with the same first bytes; one speech stream in a million matches by chance.
_FRAMES = rb"(\xff[\xe2\xe3\xf0-\xf5\xf8-\xfd])[\x10-\xef](.{14,1450}?\1[\x10-\xef]){3}"
_FILE = re.compile(_STARTS + _FRAMES, re.DOTALL)
_MAX_HEAD_BYTES = 5000  # enough bytes to recognise an audio file
_PCM, _EXTENSIBLE = 1, 0xFFFE  # format tags of WAV files


class HeaderFilter:
    """Removes a 16-bit mono WAV header at `rate` Hz from a stream of samples; refuses other audio files."""

    def __init__(self, rate: int, where: str, advice: str):
        self._rate, self._where, self._advice, self._head = rate, where, advice, b""

    def take(self, content: bytes) -> bytes:
        """Returns `content`, the next bytes of the stream, without the WAV header if there is one.

        Raises errors.UserError, with the advice, if the stream is another kind of audio file.
        """
        if not self._head:
            content = content[_find_samples(content, self._rate) :]
        if len(self._head) < _MAX_HEAD_BYTES:
            self._head = (self._head + content)[:_MAX_HEAD_BYTES]
            if _FILE.match(self._head):
                problem = "begins like an audio file, but must contain only samples, without a header"
                raise errors.UserError(f"{self._where} {problem}; {self._advice}")
        return content


def _find_samples(content: bytes, rate: int) -> int:
    """Returns the offset of the samples in a 16-bit mono WAV file at `rate` Hz, or 0 for other content."""
    if content[:4] + content[8:12] != b"RIFFWAVE":
        return 0
    is_match = False
    for name, start, size in wav_header.list_chunks(content):
        if name == b"fmt " and 16 <= size <= len(content) - start:
            tag, num_channels, sample_rate, _, _, num_bits = struct.unpack_from("<HHIIHH", content, start)
            is_match = tag in (_PCM, _EXTENSIBLE) and (num_channels, sample_rate, num_bits) == (1, rate, 16)
        if name == b"data":
            return start if is_match else 0
    return 0
