"""An utterance as a picture: spectrogram and CTC alignment, CTC probabilities, attention, over one time."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Sequence
from typing import NamedTuple, Optional

import matplotlib
import matplotlib.backends.backend_agg
import matplotlib.figure
import numpy as np

from estimator_asr.monitoring import alignment
from tfrecord_builder import fonts

_DPI = 80
_MIN_INCHES, _INCHES_PER_SECOND, _MAX_INCHES = 5.0, 2.2, 24.0
_CHARACTERS_PER_INCH = 11
_INCHES_PER_TOKEN = 0.17
_NOT_ASCII = re.compile(r"[^\x20-\x7e]")
_CROWDED = 1.4  # names per inch that still stand beside each other


class Picture(NamedTuple):
    """What is drawn.

    Attributes:
        lines: above the picture.
        fbank: float32 [num_frames, num_bins].
        frame_seconds: from one frame to the next.
        subsampling: frames that the encoder makes one of.
        names: of the labels.
        probabilities: float32 [num_subsampled, num_labels], of the labels by the CTC head.
        spans: where each label is said, in subsampled frames; None where the labels do not fit.
        attention: float32 [num_labels + 1, num_subsampled]; None without a decoder.
    """

    lines: Sequence[str]
    fbank: np.ndarray
    frame_seconds: float
    subsampling: int
    names: Sequence[str]
    probabilities: np.ndarray
    spans: Optional[Sequence[alignment.Span]]
    attention: Optional[np.ndarray]

    @property
    def seconds(self) -> float:
        return len(self.fbank) * self.frame_seconds

    @property
    def inches(self) -> float:
        return min(max(_MIN_INCHES, self.seconds * _INCHES_PER_SECOND), _MAX_INCHES)


def draw(picture: Picture) -> bytes:
    """Returns a PNG; without a CJK font, its characters are drawn as boxes."""
    picture = _replace_unprintable(picture)
    with matplotlib.rc_context(fonts.rc_params()):
        return _draw(picture)


def _draw(picture):
    num_panels = 2 if picture.attention is None else 3
    panel_inches = 0.5 + max(4, len(picture.names)) * _INCHES_PER_TOKEN
    lines = [part for line in picture.lines for part in _wrap(line, picture.inches)]
    heights = [2.4] + [panel_inches] * (num_panels - 1)
    size = (picture.inches, sum(heights) + 0.6 + 0.22 * len(lines))
    figure = matplotlib.figure.Figure(size, dpi=_DPI, layout="constrained")
    panels = figure.subplots(num_panels, sharex=True, height_ratios=heights)
    _draw_spectrogram(panels[0], picture)
    panels[0].set_title("\n".join(lines), loc="left", pad=_title_pad(picture), size=9)
    _draw_matrix(panels[1], picture, picture.probabilities.T, picture.names)
    panels[1].set_ylabel("CTC")
    if picture.attention is not None:
        _draw_matrix(panels[2], picture, picture.attention, [*picture.names, "end"])
        panels[2].set_ylabel("attention")
    panels[-1].set_xlabel("seconds")
    return _to_png(figure)


def _to_png(figure):
    file = io.BytesIO()
    matplotlib.backends.backend_agg.FigureCanvasAgg(figure).print_png(file)
    return file.getvalue()


def _draw_spectrogram(axes, picture):
    num_bins = picture.fbank.shape[1]
    extent = (0, picture.seconds, 0, num_bins)
    loudest = picture.fbank.max()
    axes.imshow(
        picture.fbank.T,
        origin="lower",
        aspect="auto",
        extent=extent,
        cmap="magma",
        vmin=max(picture.fbank.min(), loudest - 14),  # 60 dB; what is softer would take the contrast
    )
    axes.set_ylabel("bin")
    for name, span in zip(picture.names, picture.spans or ()):
        begin, end = _seconds(picture, span.first), _seconds(picture, span.last + 1)
        axes.axvspan(begin, min(end, picture.seconds), color="white", alpha=0.25, linewidth=0)
        axes.annotate(
            name,
            ((begin + end) / 2, num_bins),
            (0, 3),
            textcoords="offset points",
            ha="center",
            rotation=90 if _is_crowded(picture) else 0,
            size=9,
        )


def _draw_matrix(axes, picture, values, names):
    """Rows are labels, the first one on top; columns are subsampled frames."""
    extent = (0, _seconds(picture, values.shape[1]), len(names) - 0.5, -0.5)
    axes.imshow(values, aspect="auto", extent=extent, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    axes.set_yticks(range(len(names)), names, size=9)
    axes.set_xlim(0, picture.seconds)


def _seconds(picture, subsampled):
    return subsampled * picture.subsampling * picture.frame_seconds


def _is_crowded(picture):
    return len(picture.names) > _CROWDED * picture.inches


def _title_pad(picture):
    """Points that the names above the spectrogram take."""
    return 8 + (7 * max(map(len, picture.names), default=0) if _is_crowded(picture) else 14)


def _wrap(line, inches):
    return textwrap.wrap(line, int(inches * _CHARACTERS_PER_INCH), subsequent_indent="    ")


def _replace_unprintable(picture):
    """Replaces characters by boxes if no CJK font is installed: matplotlib would warn of each."""
    if all(map(fonts.can_draw, [*picture.lines, *picture.names])):
        return picture
    lines = [_NOT_ASCII.sub("□", line) for line in picture.lines]
    names = [_NOT_ASCII.sub("□", name) for name in picture.names]
    return picture._replace(lines=lines, names=names)
