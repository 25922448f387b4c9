"""Live transcription in a terminal: reads a microphone or standard input, and prints the growing text."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Optional

import numpy as np
import soxr

from estimator_asr.exporting.saved_model import export_info, stream_client
from estimator_asr.serving.transcripts import caption_lines, file_headers, live, live_writing
from tfrecord_builder import errors

_PCM_RATE = 16000
_BLOCK_SECONDS = 0.1
_MAX_BLOCKS = 600  # one minute of audio; the queue fills if the model is slower than the speech
_READ_BYTES = 2 * round(_BLOCK_SECONDS * _PCM_RATE)
_POLL_SECONDS = 0.2  # maximum wait, so that Ctrl-C takes effect
_ADVICE = "omit --live, or convert the audio with ffmpeg -i FILE -ac 1 -ar 16000 -f s16le -"
_NORMAL, _DIM, _CLEAR = "\033[0m", "\033[2m", "\r\033[K"


def open_microphone(sample_rate: int) -> Iterator[np.ndarray]:
    """Yields blocks of audio from the default microphone, float32 [num_samples], until the process ends.

    Raises errors.UserError if sounddevice or PortAudio is not installed, or if there is no microphone.
    """
    try:
        import sounddevice
    except (ImportError, OSError) as error:  # OSError: PortAudio, a system library, is missing
        raise errors.UserError(
            f"the microphone needs sounddevice, which cannot be imported ({error}); run "
            "pip install 'estimator-asr[live]' and, on Linux, apt-get install libportaudio2"
        ) from error
    blocks: queue.Queue[np.ndarray] = queue.Queue(_MAX_BLOCKS)
    lost = threading.Event()

    def keep(block, *_):
        try:
            blocks.put_nowait(block[:, 0].copy())
        except queue.Full:
            lost.set()

    options = {"samplerate": sample_rate, "channels": 1, "dtype": "float32"}
    size = round(_BLOCK_SECONDS * sample_rate)
    try:
        stream = sounddevice.InputStream(blocksize=size, callback=keep, **options)
    except sounddevice.PortAudioError as error:
        raise errors.UserError(
            f"the microphone cannot be opened ({error}); connect a microphone, or pipe 16-bit samples "
            "into --live -"
        ) from error
    with stream:
        print("listening; press Ctrl-C to stop", file=sys.stderr, flush=True)
        while True:
            yield blocks.get()
            if lost.is_set():
                lost.clear()
                print(
                    "warning: some audio was lost, because the model is slower than the speech",
                    file=sys.stderr,
                )


def read_pcm(file: BinaryIO, sample_rate: int) -> Iterator[np.ndarray]:
    """Reads 16-bit little-endian mono samples at 16 kHz; yields float32 [num_samples] at `sample_rate`.

    Raises errors.UserError if the input is an audio file, except a WAV file with such samples.
    """
    resampler, unread = soxr.ResampleStream(_PCM_RATE, sample_rate, 1, dtype="float32"), b""
    header_filter = file_headers.HeaderFilter(_PCM_RATE, "standard input", _ADVICE)
    while True:
        content = os.read(file.fileno(), _READ_BYTES)  # file.read would hold a lock, and so crash the exit
        unread += header_filter.take(content)
        whole = unread[: len(unread) // 2 * 2]
        unread = unread[len(whole) :]
        samples = np.frombuffer(whole, "<i2").astype(np.float32) / 32768
        yield resampler.resample_chunk(samples, last=not content)
        if not content:
            return


def transcribe(
    model,
    blocks: Iterable[np.ndarray],
    info: export_info.ExportInfo,
    streams: Optional[stream_client.StreamClient] = None,
    punctuate=None,
) -> None:
    """Prints the transcript while audio arrives: settled text, followed by dimmed text that may still change.

    In a terminal, a line is updated until its segment ends; otherwise, a line is printed when its segment has
    ended. Ctrl-C ends the audio.

    Args:
        model: recogniser.Recogniser for the signature "waveform".
        blocks: successive blocks of the audio, float32 [num_samples] each.
        info: contents of export.json, which include the blocks' sample rate.
        streams: client for the signature "stream", which recognises unfinished segments; if None, each
            unfinished segment is recognised again from its beginning.
        punctuate: recogniser.Recogniser for the signature "punctuate"; if None, the text is plain.
    """
    text = transcript = live.LiveTranscript(info, is_streaming=streams is not None)
    if punctuate:
        text = live_writing.LiveWriting(transcript, info.frontend.sample_rate, punctuate)
    source, recognise, line = _Source(blocks), _WindowRecogniser(model, streams), _Line()
    handler = signal.getsignal(signal.SIGINT)

    def show(window):
        line.show(text.update(window, recognise(window)), window.has_ended)
        del transcript.segments[:-1]

    def interrupt(*_):
        signal.signal(signal.SIGINT, handler)  # a second Ctrl-C ends the program
        source.end()

    signal.signal(signal.SIGINT, interrupt)
    try:
        _listen(show, transcript, source)
        transcript.end()
        for window in iter(transcript.take, None):
            show(window)
    finally:
        signal.signal(signal.SIGINT, handler)


def _listen(show, transcript: live.LiveTranscript, source: _Source) -> None:
    while True:
        while not transcript.is_full:
            samples = source.get(wait=False)
            if samples is None:
                break
            transcript.add(samples)
        window = transcript.take()
        if window is not None:
            show(window)
            continue
        samples = source.get(wait=True)
        if samples is None:
            return
        transcript.add(samples)


class _WindowRecogniser:
    """Recognises whole windows or, if `streams` is set, only the new audio in an unfinished segment."""

    def __init__(self, model, streams: Optional[stream_client.StreamClient]):
        self._model, self._streams = model, streams
        self._segment = streams and stream_client.GrowingSegment(streams.start_one())

    def __call__(self, window: live.Window) -> dict:
        num_samples = len(window.waveform)
        if window.has_ended or self._segment is None:
            batch = {"waveform": window.waveform[None], "num_samples": np.array([num_samples], np.int32)}
            return _only(self._model.run(batch))
        piece = self._segment.next_piece(window.start, window.waveform)
        result = _only(self._streams.pieces.run({name: value[None] for name, value in piece.items()}))
        return self._segment.keep(result, num_samples)


def _only(outputs: dict[str, list]) -> dict:
    return {name: value for name, (value,) in outputs.items()}


class _Source:
    """A thread that reads blocks; `get` re-raises any exception from the thread."""

    def __init__(self, blocks: Iterable[np.ndarray]):
        self._queue: queue.Queue = queue.Queue(_MAX_BLOCKS)
        self._blocks, self._has_ended = blocks, False
        threading.Thread(target=self._read, daemon=True).start()

    def end(self) -> None:
        """Ends the audio after the blocks that have been read so far."""
        self._has_ended = True

    def get(self, wait: bool) -> Optional[np.ndarray]:
        """Returns the next block, or None if the audio has ended, or if none is ready and `wait` is False."""
        while True:
            try:
                block = self._queue.get(timeout=_POLL_SECONDS if wait and not self._has_ended else 1e-6)
            except queue.Empty:
                if wait and not self._has_ended:
                    continue
                return None
            if isinstance(block, Exception):
                raise block
            self._has_ended |= block is None
            return block

    def _read(self) -> None:
        try:
            for block in self._blocks:
                if self._has_ended:
                    return
                self._queue.put(block)
            self._queue.put(None)
        except Exception as error:
            self._queue.put(error)


class _Line:
    """The terminal line for the segment that is being spoken."""

    def __init__(self):
        self._begin = 0  # offset of the line's text in the whole transcript

    def show(self, update: live.LiveUpdate, has_ended: bool) -> None:
        stable = update.stable[self._begin :].lstrip()
        if sys.stdout.isatty():
            width = shutil.get_terminal_size().columns - 1
            shown = _find_tail(stable + update.partial, width)
            cut = max(0, len(stable) - (len(stable + update.partial) - len(shown)))
            print(f"{_CLEAR}{shown[:cut]}{_DIM}{shown[cut:]}{_NORMAL}", end="", flush=True)
        if has_ended:
            self._begin = len(update.stable)
            if stable:
                print(f"{_CLEAR}{stable}" if sys.stdout.isatty() else stable, flush=True)


def _find_tail(text: str, width: int) -> str:
    """Returns the longest suffix of a text that fits into `width` columns."""
    place = len(text)
    while place:
        width -= 2 if caption_lines.is_wide(text[place - 1]) else 1
        if width < 0:
            break
        place -= 1
    return text[place:]
