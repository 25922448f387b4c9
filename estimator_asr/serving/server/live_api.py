"""/v1/stream: a WebSocket that receives live audio and sends the transcript while the speech continues.

A client sends mono samples in binary messages, and commands in JSON text messages: {"hotwords": "..."} before
the samples and {"end": true} after them. The client receives {"type": "partial", "stable", "partial", ...}
and, after the end, {"type": "final", ...}. At any time, the client may also receive
{"type": "error", "error": {"message"}}; see docs/serve.md for details.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Optional

import numpy as np
from starlette import routing, websockets

from estimator_asr.exporting.saved_model import stream_client
from estimator_asr.serving.server import api_errors, live_messages, openai_api, served_version, service
from estimator_asr.serving.transcripts import captions, live, live_writing, written_text
from tfrecord_builder import errors

SUBPROTOCOL = "asr"
_SLICE_SECONDS = 0.5  # audio is added in slices of this length, so that other clients are not delayed
_SEND_SECONDS = 10.0
_RETRY_SECONDS = 1.0  # wait before another attempt if the queue is full
_NORMAL, _POLICY_VIOLATION, _INTERNAL_ERROR = 1000, 1008, 1011


def make_route(parts: service.Service) -> routing.WebSocketRoute:
    async def stream(socket: websockets.WebSocket) -> None:
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in socket.scope["subprotocols"] else None)
        try:
            audio = live_messages.Audio(socket.query_params)
            with parts.versions.current.used() as version:
                is_plain = live_messages.read_text_form(socket.query_params) == written_text.PLAIN
                await _Stream(parts, socket, version, audio, is_plain).run()
            await _close(socket, _NORMAL)
        except (api_errors.ApiError, errors.UserError) as error:
            await _close(socket, _POLICY_VIOLATION, str(error))
        except (websockets.WebSocketDisconnect, asyncio.TimeoutError):
            pass  # the client has disconnected, or does not read the messages
        except Exception:
            await _close(socket, _INTERNAL_ERROR, api_errors.FAILED)
            raise

    return routing.WebSocketRoute("/v1/stream", stream)


async def _close(socket: websockets.WebSocket, code: int, sentence: str = "") -> None:
    """Sends `sentence`, if any, as an error and closes the connection; the client may already be gone."""
    with contextlib.suppress(websockets.WebSocketDisconnect, asyncio.TimeoutError, RuntimeError, OSError):
        if sentence:
            await _send(socket, {"type": "error", "error": {"message": sentence}})
        await asyncio.wait_for(socket.close(code), _SEND_SECONDS)


class _Stream:
    """One connection: reads audio and recognises it concurrently."""

    def __init__(
        self,
        parts: service.Service,
        socket: websockets.WebSocket,
        version: served_version.ServedVersion,
        audio: live_messages.Audio,
        is_plain: bool,
    ):
        self._parts, self._socket, self._version, self._audio = parts, socket, version, audio
        self._resample = audio.make_resampler(version.sample_rate)
        self._changes, start = asyncio.Lock(), version.stream_start
        self._live = live.LiveTranscript(version.info, is_streaming=start is not None)
        self._writing = None
        if version.punctuate and not is_plain:
            settings = version.sample_rate, version.punctuate
            self._writing = live_writing.LiveWriting(self._live, *settings)
        self._text = ""  # text that will not change any more
        self._segment = stream_client.GrowingSegment(start) if start else None
        self._hotwords: tuple[str, ...] = ()
        self._has_news, self._has_room = asyncio.Event(), asyncio.Event()
        self._is_over = self._is_closed = False  # True after the end of the audio or of the connection
        self._waited = 0.0  # seconds spent waiting for messages from the client

    async def run(self) -> None:
        """Serves the stream until its audio ends, then sends the final transcript.

        Raises WebSocketDisconnect or TimeoutError if the client has disconnected or does not read messages;
        raises api_errors.ApiError or errors.UserError for errors that the client should see.
        """
        tasks = [asyncio.ensure_future(coroutine) for coroutine in (self._read(), self._recognise())]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            self._is_closed = True  # ends both loops even if wait_for swallows the cancellation
            self._has_news.set(), self._has_room.set()
            await asyncio.wait(tasks, timeout=_SEND_SECONDS)  # the caller may close the version afterwards
        transcript = captions.Transcript("", self._live.segments)
        if self._writing:
            form = self._version.punctuate.form
            segments = [written_text.write(segment, form) for segment in transcript.segments]
            transcript = transcript._replace(written=segments)
        final = openai_api.describe(self._version, ("word",), transcript, self._seconds)
        await _send(self._socket, {"type": "final", **final, "text": self._text})

    @property
    def _seconds(self) -> float:
        return self._live.num_samples / self._version.sample_rate

    async def _read(self) -> None:
        while not self._is_over and not self._is_closed:
            message = await self._receive()
            if message.get("bytes") is not None:
                await self._add(self._audio.read(message["bytes"]))
            else:
                command = live_messages.read_command(message["text"])
                if command.hotwords and self._live.num_samples:
                    raise api_errors.refuse(
                        "hotwords arrived after audio; send hotwords before the first samples"
                    )
                self._hotwords, self._is_over = command.hotwords or self._hotwords, command.is_end
                if self._hotwords:  # the streaming signature does not support hotwords
                    self._segment, self._live.step_seconds = None, live.STEP_SECONDS
        async with self._changes:
            self._live.add(self._resample(np.empty(0, np.float32), last=True))
            self._live.end()
        self._has_news.set()

    async def _receive(self) -> dict:
        """Returns the next message; the total wait may exceed the audio's length by max_body_seconds."""
        patience, began = self._parts.limits.max_body_seconds, time.monotonic()
        try:
            remaining = patience + self._seconds - self._waited
            message = await asyncio.wait_for(self._socket.receive(), remaining)
        except asyncio.TimeoutError:
            waited = self._waited + time.monotonic() - began
            problem = (
                f"the stream has only {self._seconds:.0f} s of audio after {waited:.0f} s and may fall at "
                f"most {patience:g} s behind; send silence during pauses, or end the stream"
            )
            raise api_errors.ApiError(408, problem) from None
        self._waited += time.monotonic() - began
        if message["type"] == "websocket.disconnect":
            raise websockets.WebSocketDisconnect(message.get("code", 1006))
        return message

    async def _add(self, samples: np.ndarray) -> None:
        size = int(_SLICE_SECONDS * self._audio.rate)
        for place in range(0, len(samples), size):
            async with self._changes:  # voice activity detection takes time, so it runs in a thread
                part = samples[place : place + size]
                await asyncio.to_thread(lambda part=part: self._live.add(self._resample(part)))
            self._has_news.set()
        most = self._parts.limits.max_audio_seconds
        if self._seconds > most:
            raise api_errors.refuse(f"the stream's audio is longer than {most:g} s; start another stream")
        while self._live.is_full:
            self._has_room.clear()
            await self._has_room.wait()

    async def _recognise(self) -> None:
        while not self._is_closed:
            async with self._changes:
                # Interim results may still change, so they wait if other requests fill the next batch.
                is_due = self._is_over or self._live.has_ended or not self._parts.batcher.is_crowded
                window = self._live.take() if is_due else None
            if window is not None:
                result = await self._run(window)
                if result is None:
                    continue
                if self._writing:
                    result = await asyncio.to_thread(self._writing.add_marks, window, result)
                async with self._changes:
                    update = (self._writing or self._live).update(window, result)
                self._text = update.stable
                self._has_room.set()
                text = update.stable + update.partial
                message = {"type": "partial", "text": text, **update._asdict()}
                if self._writing:
                    message["written"] = self._writing.written
                await _send(self._socket, message)
            elif self._is_over and self._live.is_over:
                return
            elif not is_due:
                await asyncio.sleep(_RETRY_SECONDS / 2)
            else:
                self._has_news.clear()
                await self._has_news.wait()

    async def _run(self, window: live.Window) -> Optional[dict]:
        """Returns the window's result, or None if the queue is full and the segment is still growing."""
        while True:
            is_interim = not window.has_ended
            is_piece = is_interim and self._segment is not None
            if is_piece:
                piece = self._segment.next_piece(window.start, window.waveform)
                item = self._version.make_piece(piece)
            else:
                item = self._version.make_item(window.waveform, self._hotwords, is_interim)
            try:
                with self._parts.bodies.counted():
                    (result,) = await self._parts.batcher.recognise([item])
            except api_errors.ApiError as error:
                if error.status != api_errors.OVERLOADED:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
                if is_interim:
                    return None
            else:
                if window.has_ended:
                    self._parts.metrics.utterances.labels(result["status"]).inc()
                    if self._segment is not None:
                        self._segment.end()
                return self._segment.keep(result, len(window.waveform)) if is_piece else result


async def _send(socket: websockets.WebSocket, content: dict) -> None:
    text = json.dumps(content, ensure_ascii=False)
    await asyncio.wait_for(socket.send_text(text), _SEND_SECONDS)
