"""Recognises a file where samples without a header are expected, so that none is transcribed as noise."""

from __future__ import annotations

import contextlib
import io
import wave

from tfrecord_builder import errors

_STARTS = {
    **{b"fLaC": "FLAC", b"OggS": "Ogg", b"ID3": "MP3", b"\x1a\x45\xdf\xa3": "WebM"},
    **{b"#!AMR": "AMR", b"FORM": "AIFF", b"caff": "CAF"},
}


def strip(head: bytes, rate: int, where: str, advice: str) -> bytes:
    """Returns the first bytes of audio, without the header of a WAV file of 16-bit mono samples at `rate` Hz.

    Raises:
        errors.UserError: another file begins with them; the sentence ends with the advice.
    """
    name, file = _find_format(head), io.BytesIO(head)
    with contextlib.suppress(wave.Error, EOFError):
        if name == "WAV" and wave.open(file).getparams()[:3] == (1, 2, rate):
            return head[file.tell() :]
    if name:
        what = f"begins as {name} files do, expected samples without a header"
        raise errors.UserError(f"{where}: {what}; {advice}")
    return head


def _find_format(head: bytes) -> str:
    if head[8:12] == b"WAVE":
        return "WAV"
    if head[4:8] == b"ftyp":
        return "MP4"
    size = _measure_frame(head[:6])  # samples may begin as one frame, but not as two
    if size and _measure_frame(head[size : size + 6]) and head[:2] == head[size : size + 2]:
        return "MP3 or AAC"
    return next((name for start, name in _STARTS.items() if head.startswith(start)), "")


def _measure_frame(header: bytes) -> int:
    """Returns the bytes of a frame of MP3 (ISO 11172-3, 13818-3) or AAC (ADTS), 0 for other bytes."""
    bits = int.from_bytes(header.ljust(6, b"\0"), "big")
    version, layer, step, rate = bits >> 35 & 3, bits >> 33 & 3, bits >> 28 & 15, bits >> 26 & 3
    if bits >> 36 == 0xFFF and layer == 0:
        return bits >> 5 & 0x1FFF
    if bits >> 37 != 0x7FF or version == 1 or layer != 1 or not 0 < step < 15 or rate == 3:
        return 0
    bytes_per_second = (4 + (step - 1) % 4) * 1000 << (step - 1) // 4
    if version != 3:  # MPEG 2 and 2.5
        bytes_per_second = 1000 * min(step, 8) + 2000 * max(0, step - 8)
    hertz = (44100, 48000, 32000)[rate] // {3: 1, 2: 2, 0: 4}[version]
    return (1152 if version == 3 else 576) * bytes_per_second // hertz + (bits >> 25 & 1)
