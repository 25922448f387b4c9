"""Decodes an open audio file, or a segment of it, with libsndfile, and detects truncation."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO, Optional

import numpy as np
import soundfile

from tfrecord_builder.audio import stream_ends, wav_header

# libsndfile logs this if a WAV file is shorter than its header says: "data : 64000 (should be 19169)".
_SHORT_WAV = re.compile(r"^data : (\d+) \(should be (\d+)\)$", re.MULTILINE)
# Programs that write WAV to a pipe put a length of at least this many bytes in the header: SoX writes
# 0x7ffff000, rounded down to whole samples (wav.c), and others write 0x7fffffff or 0xffffffff.
_UNKNOWN_LENGTH = 0x7FFF0000
_UNKNOWN_SAMPLES = 2**63 - 1  # libsndfile's sample count for a FLAC file that was written to a pipe
_MP3_SLACK_SAMPLES = 2 * 1152  # two MP3 frames: the count in the header may include padding
_BLOCK = 1 << 20  # samples per block, summed over channels; most files fit into one block
_SMALL_BLOCK = 1 << 14  # small enough for libFLAC's log to show whether a file is damaged or truncated
_FLAC_END = "STREAM_DECODER_END_OF_STREAM"  # libFLAC logs this if a file ends within a frame
# A segment may run past the end of the file by this much (Kaldi's extract-segments.cc, --max-overshoot).
_OVERSHOOT_SECONDS = 0.5
_STDERR_LOCK = threading.Lock()  # all threads share the descriptor of standard error


class AudioReader:
    """Reads an open file once: as a whole, as a segment, or in blocks.

    Samples are float32 [num_samples, num_channels].

    Attributes:
        sample_rate: sample rate in Hz.
        seconds: duration in the header; None if the header states no duration.
        warning: explains why more samples are read than the header states; empty if the header is right.
        problem: describes what is missing from the file, "" if nothing is missing; set after reading.
        trailing_audio: describes audio that libsndfile leaves out at the end, or ""; also set after reading.
    """

    def __init__(self, file: BinaryIO, *raw: int):
        """Opens `file`; `raw` is the sample rate and channel count of a headerless float32 file."""
        self._file, self._raw = file, raw
        self._open()
        self.format = self._stream.format.lower()  # FFmpeg's name for the format
        self.sample_rate, num_samples = self._stream.samplerate, self._stream.frames
        self.seconds = None if num_samples == _UNKNOWN_SAMPLES else num_samples / max(1, self.sample_rate)
        self.problem = self.trailing_audio = ""

    def _open(self) -> None:
        os.lseek(self._file.fileno(), 0, os.SEEK_SET)
        options = {"format": "RAW", "subtype": "FLOAT"} if self._raw else {}
        repaired = None if self._raw else wav_header.open_repaired(self._file)
        self.warning = wav_header.WARNING if repaired else ""
        with _quiet_mp3(self._file):
            self._stream = _Stream(repaired or self._file.fileno(), "r", *self._raw, closefd=False, **options)

    def look_ahead(self) -> None:
        """Before the first read, sets `trailing_audio`, and corrects `seconds` if the header is wrong."""
        if self.format in ("mp3", "flac", "ogg"):
            self._skip_to_end()
            self._open()
            self.problem = ""

    def _skip_to_end(self) -> None:
        try:
            with _quiet_mp3(self._file):
                self._stream.seek(max(self._stream.frames - 1, 0))
                is_there = len(self._stream.read(1))
        except soundfile.LibsndfileError:
            is_there = False
        if not is_there and self._stream.frames != _UNKNOWN_SAMPLES:
            self._open()
            self.seconds = sum(map(len, self.read_blocks(_BLOCK // self._stream.channels))) / self.sample_rate
        self.trailing_audio = self.trailing_audio or self._find_trailing_audio()

    def read(
        self, max_seconds: float, start_seconds: float = 0.0, seconds: Optional[float] = None
    ) -> np.ndarray:
        """Reads the file or a segment of it, up to one sample more than max_seconds.

        The memory used depends on how many samples exist, not on the length in the header.
        """
        start, wanted = (round((value or 0) * self.sample_rate) for value in (start_seconds, seconds))
        most = int(min(max_seconds * self.sample_rate + 1, _UNKNOWN_SAMPLES))
        num_samples = most if seconds is None else min(most, wanted)
        is_flac = self._stream.format == "FLAC"
        blocks = [self._no_samples()]
        if self._seek(start):
            block_samples = _SMALL_BLOCK if is_flac else _BLOCK // self._stream.channels
            blocks += self.read_blocks(block_samples, start, num_samples)
        samples = blocks[1] if len(blocks) == 2 else np.concatenate(blocks)
        is_short = seconds is not None and num_samples - len(samples) > _OVERSHOOT_SECONDS * self.sample_rate
        if is_short or (start and not len(samples)):
            is_known = len(samples) or self._stream.frames != _UNKNOWN_SAMPLES
            length = min(start + len(samples), self._stream.frames) / self.sample_rate
            self.problem = (
                (f"it ends at {length:.2f} s, but" if is_known else "it ends before")
                + f" the segment{'' if is_known else ', which'} begins at {start_seconds:.2f} s"
                + ("" if seconds is None else f" and lasts {seconds:.2f} s")
            )
        return samples

    def _seek(self, start: int) -> bool:
        """Seeks to a sample; returns False if the file ends before it."""
        if start >= self._stream.frames > 0:
            self._skip_to_end()
            return False
        try:
            with _quiet_mp3(self._file):
                return not start or self._stream.seek(start) >= 0
        except soundfile.LibsndfileError:
            return False

    def read_blocks(
        self, block_samples: int = _SMALL_BLOCK, start: int = 0, num_samples: int = _UNKNOWN_SAMPLES
    ) -> Iterator[np.ndarray]:
        """Yields blocks of up to `block_samples` samples.

        Stops after `num_samples` samples in all, or at the end of the file. `start` must be the current
        position in the file, in samples.
        """
        end, position = start + num_samples, start
        while position < end:
            # A read beyond the end would make libsndfile report an Ogg file as truncated.
            block = self._read(min(block_samples, end - position, self._stream.frames - position))
            if not len(block):
                self.trailing_audio = self.trailing_audio or self._find_trailing_audio()
                self.problem = self.problem or self._find_truncation(position)
                break
            position += len(block)
            yield block

    def _read(self, num_samples: int) -> np.ndarray:
        try:
            with _quiet_mp3(self._file):
                return self._stream.read(num_samples, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError:
            if _FLAC_END in self._stream.extra_info:
                self.problem = "the FLAC stream ends within a frame"
            elif self._stream.format == "MP3":  # libmpg123 has given up
                self.trailing_audio = "some bytes between or after the MP3 frames are not audio"
            elif not stream_ends.is_joined(self._file, self._stream.format):
                raise
            return self._no_samples()

    def _find_trailing_audio(self) -> str:
        file, frames = self._file.fileno(), self._stream.frames
        is_known = frames != _UNKNOWN_SAMPLES
        position = os.lseek(file, 0, os.SEEK_CUR) if is_known else os.fstat(file).st_size
        more = stream_ends.find_trailing_audio(self._file, self._stream.format, position)
        end = f" the expected end at {frames / self.sample_rate:.2f} s" if is_known else " the first part"
        return more and more + end

    def _find_truncation(self, num_samples: int) -> str:
        """Describes what the header states but the file lacks; returns "" if the file is complete."""
        stream = self._stream
        short_wav = _SHORT_WAV.search(stream.extra_info)
        if short_wav and int(short_wav[1]) < _UNKNOWN_LENGTH:
            return f"it has {short_wav[2]} bytes of samples, but its header states {short_wav[1]}"
        if "without an End-Of-Stream flag" in stream.extra_info:
            return "the Ogg stream has no end marker"
        is_long = stream.frames == _UNKNOWN_SAMPLES or stream.frames - num_samples <= _MP3_SLACK_SAMPLES
        if is_long or stream.format == "MP3" and not stream_ends.is_longer_by_header(self._file):
            return ""
        return f"it has {num_samples} samples, but its header states {stream.frames}"

    def _no_samples(self) -> np.ndarray:
        return np.empty([0, self._stream.channels], np.float32)


@contextlib.contextmanager
def noticing_failed_reads(file: BinaryIO) -> Iterator[None]:
    """Raises OSError if a read failed; libsndfile mistakes the failure for the end of the file."""
    try:
        yield
    except soundfile.LibsndfileError:
        read_through(file)
        raise


def read_through(file: BinaryIO) -> None:
    """Reads the whole file; raises OSError if any part cannot be read."""
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    while os.read(file.fileno(), _BLOCK):
        pass


@contextlib.contextmanager
def _quiet_mp3(file: BinaryIO) -> Iterator[None]:
    """Discards standard error while an MP3 is read, because libmpg123 writes warnings to it."""
    start = os.pread(file.fileno(), 3, 0)
    is_mp3 = start == b"ID3" or (start[:1] == b"\xff" and start[1:2] >= b"\xe0")  # an ID3 tag or an MP3 frame
    if not is_mp3 or sys.stderr is None:  # if stderr is closed, descriptor 2 may belong to another file
        yield
        return
    with _STDERR_LOCK, open(os.devnull, "wb") as nowhere:
        stderr = os.dup(2)
        try:
            os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


class _Stream(soundfile.SoundFile):
    """A SoundFile that does not seek after reading a block, because seeking fails in some FLAC files."""

    def seekable(self) -> bool:
        return False
