"""Draws a record as a picture: its spectrogram, transcript and pronunciation."""

from __future__ import annotations

import textwrap

import matplotlib

matplotlib.use("Agg")  # a backend that needs no display

import matplotlib.pyplot as plt

from tfrecord_builder.audio import frontend, spectrogram
from tfrecord_builder.data import schema
from tfrecord_builder.program import fonts

_LINE_WIDTH = 90  # width in Latin characters; hanzi are twice as wide
_MAX_LINES = 50  # lines per text; more would take minutes to draw or exceed matplotlib's limit of 2^16 pixels
_DPI = 120
_FIRST_LINE_POINTS, _LINE_POINTS = -46, 20  # position of the first line, below the axis labels; line spacing


def draw(record: schema.Record, config: frontend.FrontendConfig, path: str) -> list[str]:
    """Draws a record's features over time, with the transcript and pronunciation, and saves a PNG file.

    Returns the texts that were omitted because no CJK font is installed.
    """
    texts = [text for text in (record.transcript, record.pronunciation) if text]
    lines = [line for text in texts if fonts.can_draw(text) for line in _wrap(text)[:_MAX_LINES]]
    with matplotlib.rc_context(fonts.rc_params()):
        size_inches = (12, 4.4 + len(lines) * _LINE_POINTS / 72)
        figure, axes = plt.subplots(figsize=size_inches, layout="constrained")
        features = frontend.log_mel_of(record.fbank, config)
        image = spectrogram.draw(axes, features, config.hop_samples / config.sample_rate)
        label = "log mel" if config.frontend == "waveform" else config.frontend.replace("_", " ")
        axes.set_xlabel("seconds")
        axes.set_ylabel("frequency bin" if config.frontend == "log_spectrogram" else "mel bin")
        figure.colorbar(image, ax=axes, label=label, pad=0.01)
        if fonts.can_draw(record.utterance_id):
            axes.set_title(record.utterance_id[:_LINE_WIDTH], loc="left", size=10, color="#555555")
        for number, line in enumerate(lines):
            offset = (0, _FIRST_LINE_POINTS - _LINE_POINTS * number)
            axes.annotate(line, (0, 0), offset, "axes fraction", "offset points", size=13)
        figure.savefig(path, dpi=_DPI, format="png", metadata={"Software": None})
        plt.close(figure)
    return [text for text in texts if not fonts.can_draw(text)]


def _wrap(text: str) -> list[str]:
    is_wide = max(map(ord, text)) > 0x2E80
    return textwrap.wrap(text, _LINE_WIDTH // 2 if is_wide else _LINE_WIDTH)
