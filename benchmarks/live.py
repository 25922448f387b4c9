"""Measures the delay of live transcripts while sixteen clients speak to the server in real time.

    python -m benchmarks.live --saved_model=EXPORT --audio_dir=WAVS [--seconds=60] [--picture=settling.png]

The WAV files in a directory are joined into clips of about five seconds. The server runs in a separate
process. Each client sends a clip to /v1/stream in blocks of a tenth of a second, at the times when they would
be spoken, ends the stream, waits for the final transcript, and begins the next clip. Clients begin one after
the other. The delay of a character is the time from its end, according to CTC, to the message that settles
it. The delay of a final transcript is the time from the end of the speech. Each final transcript is compared
with the transcript of the same clip as an upload. The picture shows each character of the first clip, from
the first result that contains it to the result that settles it. A missed bar is marked FAIL, and the exit
code is then 1.
"""

from __future__ import annotations

import asyncio
import dataclasses
import io
import json
import time
from collections.abc import Sequence
from typing import NamedTuple, Optional

import numpy as np
import requests
import soundfile
from rapidfuzz.distance import Levenshtein
from websockets.asyncio import client as websocket_client

from benchmarks import bars, machine
from benchmarks.serving import clips as serving_clips
from benchmarks.serving import process
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, program

_BLOCK_SECONDS = 0.1
_MEDIAN_SECONDS, _FINAL_SECONDS, _AGREEMENT = 1.5, 0.7, 99.0


@dataclasses.dataclass(frozen=True)
class BenchmarkConfig(config_flags.Checked):
    """The model, the speech, and the duration of the measurement."""

    saved_model: str = config_flags.setting("", "export directory, or one version in it", required=True)
    audio_dir: str = config_flags.setting("", "directory of WAV files with one sample rate", required=True)
    clip_seconds: float = config_flags.setting(5.0, "minimum length of a clip", positive=True)
    num_clients: int = config_flags.setting(16, "number of simultaneous clients", minimum=1)
    seconds: float = config_flags.setting(60.0, "time in which clients begin new clips", positive=True)
    picture: Optional[str] = config_flags.setting(None, "PNG file that shows how the first clip settles")


class Spoken(NamedTuple):
    """One clip: its messages, with the seconds since the clip's first sample, and the clip's length."""

    messages: list[tuple[float, dict]]
    seconds: float

    @property
    def final(self) -> dict:
        """The last message; raises errors.UserError if the stream has failed."""
        last = self.messages[-1][1]
        if last["type"] != "final":
            raise errors.UserError(f"/v1/stream: {last['error']['message']}")
        return last

    def list_delays(self) -> list[float]:
        """Returns the seconds from the end of each character to the message that settles it."""
        return [
            at - each["end"]
            for at, message in self.messages[:-1]
            for each in message["characters"][: message["num_stable"] - message["first"]]
        ]

    def count_changes(self) -> int:
        """Returns how often settled text is different in the next message."""
        texts = ["", *(message["stable"] for _, message in self.messages[:-1]), self.final["text"]]
        return sum(not new.startswith(old) for old, new in zip(texts, texts[1:]))


async def speak(url: str, content: bytes) -> Spoken:
    """Sends a WAV file in real time; returns the messages received."""
    samples, sample_rate = soundfile.read(io.BytesIO(content), dtype="<i2")
    size, messages = round(_BLOCK_SECONDS * sample_rate), []
    async with websocket_client.connect(f"{url}?sample_rate={sample_rate}") as socket:
        began = time.monotonic()

        async def receive():
            async for text in socket:
                messages.append((time.monotonic() - began, json.loads(text)))

        receiving = asyncio.ensure_future(receive())
        for end in range(size, len(samples) + size, size):
            await asyncio.sleep(max(0, began + min(end, len(samples)) / sample_rate - time.monotonic()))
            await socket.send(samples[end - size : end].tobytes())
        await socket.send(json.dumps({"end": True}))
        await receiving
    return Spoken(messages, len(samples) / sample_rate)


async def speak_all(
    url: str, clips: Sequence[serving_clips.Clip], num_clients: int, seconds: float
) -> list[tuple[int, Spoken]]:
    """Runs clients that speak clips for some seconds; returns (index of the clip, result) pairs."""
    found, ends = [], time.monotonic() + seconds

    async def work(client: int) -> None:
        await asyncio.sleep(client * clips[0].seconds / num_clients)
        number = client
        while time.monotonic() < ends:
            index = number % len(clips)
            found.append((index, await speak(url, clips[index].content)))
            number += num_clients

    await asyncio.gather(*map(work, range(num_clients)))
    return found


def read_texts(url: str, clips: Sequence[serving_clips.Clip]) -> list[str]:
    """Uploads the clips; returns the transcripts."""
    responses = (requests.post(url, files={"file": each.content}, timeout=60) for each in clips)
    return [response.json()["text"] for response in responses]


def main(config: BenchmarkConfig) -> int:
    """Prints the measurements and the bars; returns 1 if a bar is missed."""
    machine.check_cores()
    clips = serving_clips.read(config.audio_dir, config.clip_seconds)
    with process.Server(config.saved_model) as server:
        print(f"{len(clips)} clips of {np.mean([clip.seconds for clip in clips]):.1f} s; {server.line}")
        host = "{}:{}/v1".format(*server.address)
        texts = read_texts(f"http://{host}/audio/transcriptions", clips)
        url = f"ws://{host}/stream"
        found = asyncio.run(speak_all(url, clips, config.num_clients, config.seconds))
    if config.picture:
        draw(min(found, key=lambda each: each[0])[1], config.picture)
    return show(found, texts)


def show(found: Sequence[tuple[int, Spoken]], texts: Sequence[str]) -> int:
    """Prints the delays of characters and of final transcripts, and the bars."""
    delays = [delay for _, spoken in found for delay in spoken.list_delays()]
    finals = [spoken.messages[-1][0] - spoken.seconds for _, spoken in found]
    for name, values in {"characters": delays, "final transcripts": finals}.items():
        shares = "  ".join(f"{each} % {np.percentile(values, each):.2f} s" for each in (50, 90, 99))
        print(f"{len(values)} {name}, late by: {shares}")
    edits = sum(Levenshtein.distance(spoken.final["text"], texts[index]) for index, spoken in found)
    num_characters = sum(len(texts[index]) for index, _ in found)
    return bars.show(
        [
            bars.Bar("median of characters, s", float(np.median(delays)), maximum=_MEDIAN_SECONDS),
            bars.Bar(
                "99 % of final transcripts, s", float(np.percentile(finals, 99)), maximum=_FINAL_SECONDS
            ),
            bars.Bar(
                "settled text that changed", sum(spoken.count_changes() for _, spoken in found), maximum=0
            ),
            bars.Bar(
                "agreement with uploads, %", 100 - 100 * edits / max(num_characters, 1), minimum=_AGREEMENT
            ),
        ]
    )


def draw(spoken: Spoken, path: str) -> None:
    """Draws when each character of the final transcript was said, first shown, and settled."""
    import matplotlib
    from matplotlib import figure

    from tfrecord_builder.program import fonts

    with matplotlib.rc_context(fonts.rc_params()):
        name = "character" if fonts.can_draw(spoken.final["text"]) else "pinyin"
        axes = figure.Figure(figsize=(9, 4.5), layout="constrained").add_subplot()
        rows = range(len(spoken.final["characters"]))
        settled = [
            next(at for at, message in spoken.messages if message.get("num_stable", 10**9) > row)
            for row in rows
        ]
        shown = [
            next(
                (at for at, each in spoken.messages[:-1] if row < each["first"] + len(each["characters"])),
                settled[row],
            )
            for row in rows
        ]
        ends = [each["end"] for each in spoken.final["characters"]]
        axes.plot(ends, rows, "k|", markersize=10, label="said")
        axes.barh(rows, np.subtract(settled, shown), 0.6, shown, color="0.75", label="shown, may change")
        for row, each in enumerate(spoken.final["characters"]):
            axes.text(settled[row] + 0.05, row, each[name], va="center")
        axes.axvline(spoken.seconds, color="tab:red", linewidth=1, label="end of the speech")
        axes.set(xlabel="seconds", yticks=[], xlim=(0, spoken.messages[-1][0] + 0.5))
        axes.invert_yaxis()
        axes.legend(title="A bar ends when its character settles.")
        axes.figure.savefig(path, dpi=100)


if __name__ == "__main__":
    program.run(main, BenchmarkConfig)
