"""A record as a picture: its spectrogram, and what was said where a font here can write it."""

from __future__ import annotations

import textwrap

import matplotlib

matplotlib.use("Agg")  # no display

import matplotlib.font_manager
import matplotlib.pyplot as plt
import numpy as np

from tfrecord_builder import fonts, frontend, schema
from tfrecord_builder.building import half_floats

_LINE_WIDTH = 90  # characters of Latin; hanzi are twice as wide
_DPI = 120
_FIRST_LINE_POINTS, _LINE_POINTS = -46, 20  # below the axes and their labels


def draw(record: schema.Record, config: frontend.FrontendConfig, path: str) -> list[str]:
    """Draws the features of a record over time, with transcript and pronunciation, as a PNG.

    Args:
      record: with features.
      config: how they were made.
      path: where to write.

    Returns:
      The texts that no font here can write, which the picture leaves out.
    """
    texts = [text for text in (record.transcript, record.pronunciation) if text]
    found = {text: fonts.find_font(text.replace(" ", "")) for text in texts}
    lines = [(line, font) for text, font in found.items() if font for line in _wrap(text)]
    size_inches = (12, 4.4 + len(lines) * _LINE_POINTS / 72)
    figure, axes = plt.subplots(figsize=size_inches, layout="constrained")
    try:
        _draw_features(figure, axes, record.fbank, config)
        _write(axes, lines, record.utterance_id)
        figure.savefig(path, dpi=_DPI, format="png", metadata={"Software": None})
    finally:
        plt.close(figure)
    return [text for text, font in found.items() if font is None]


def _draw_features(figure, axes, fbank: np.ndarray, config: frontend.FrontendConfig) -> None:
    num_frames, num_bins = fbank.shape
    seconds = num_frames * config.hop_samples / config.sample_rate
    image = axes.imshow(
        half_floats.to_float32(fbank).T,
        origin="lower",
        aspect="auto",
        interpolation="nearest",
        cmap="magma",
        extent=(0, seconds, 0, num_bins),
    )
    axes.set_xlabel("seconds")
    axes.set_ylabel("mel bin" if config.frontend == "log_mel" else "frequency bin")
    figure.colorbar(image, ax=axes, label=config.frontend.replace("_", " "), pad=0.01)


def _write(axes, lines: list[tuple[str, str]], utterance_id: str) -> None:
    """Writes the id above, and each line in its font below."""
    id_font = fonts.find_font(utterance_id)
    if id_font:
        font = matplotlib.font_manager.FontProperties(fname=id_font, size=10)
        axes.set_title(fonts.plain(utterance_id), loc="left", fontproperties=font, color="#555555")
    for place, (line, path) in enumerate(lines):
        font = matplotlib.font_manager.FontProperties(fname=path, size=13)
        offset = (0, _FIRST_LINE_POINTS - _LINE_POINTS * place)
        written = fonts.plain(line)
        axes.annotate(written, (0, 0), offset, "axes fraction", "offset points", fontproperties=font)


def _wrap(text: str) -> list[str]:
    is_wide = max(map(ord, text)) > 0x2E80
    return textwrap.wrap(text, _LINE_WIDTH // 2 if is_wide else _LINE_WIDTH)
