"""Picture of a prediction sample: spectrogram with CTC alignment, CTC probabilities and attention."""

from __future__ import annotations

import io
import textwrap
import warnings
from collections.abc import Sequence
from typing import NamedTuple, Optional

import matplotlib
import matplotlib.backends.backend_agg
import matplotlib.figure
import numpy as np

from estimator_asr.monitoring import alignment
from tfrecord_builder.runtime import fonts

_DPI = 80
_MIN_INCHES, _INCHES_PER_SECOND, _MAX_INCHES = 5.0, 2.2, 24.0
_CHARACTERS_PER_INCH = 11
_INCHES_PER_TOKEN = 0.17
_MAX_NAMES_PER_INCH = 1.4  # more are rotated
_DYNAMIC_RANGE = 14.0  # 60 dB in natural logarithms of power


class Picture(NamedTuple):
    """Content of a picture."""

    lines: Sequence[str]  # text above it
    fbank: np.ndarray  # float32 [num_frames, num_bins]
    frame_seconds: float  # frame shift
    subsampling: int  # frames per subsampled frame
    names: Sequence[str]  # of the labels
    probabilities: np.ndarray  # float32 [num_subsampled, num_labels], of the labels by the CTC head
    spans: Optional[Sequence[alignment.Span]]  # in subsampled frames; None where the labels do not fit
    attention: Optional[np.ndarray]  # float32 [num_labels + 1, num_subsampled]; None without a decoder

    @property
    def seconds(self) -> float:
        return len(self.fbank) * self.frame_seconds

    @property
    def inches(self) -> float:
        return min(max(_MIN_INCHES, self.seconds * _INCHES_PER_SECOND), _MAX_INCHES)

    @property
    def is_crowded(self) -> bool:
        return len(self.names) > _MAX_NAMES_PER_INCH * self.inches


def draw(picture: Picture) -> bytes:
    """Returns a PNG; without a CJK font, its characters are drawn as boxes."""
    with matplotlib.rc_context({**fonts.rc_params(), "font.size": 9}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure = _draw_figure(picture)
        file = io.BytesIO()
        matplotlib.backends.backend_agg.FigureCanvasAgg(figure).print_png(file)
    return file.getvalue()


def _draw_figure(picture):
    matrices = {"CTC": (picture.probabilities.T, picture.names)}
    if picture.attention is not None:
        matrices["attention"] = (picture.attention, [*picture.names, "end"])
    lines = [part for line in picture.lines for part in _wrap(line, picture.inches)]
    heights = [2.4] + [0.5 + max(4, len(picture.names)) * _INCHES_PER_TOKEN] * len(matrices)
    size = (picture.inches, sum(heights) + 0.6 + 0.22 * len(lines))
    figure = matplotlib.figure.Figure(size, dpi=_DPI, layout="constrained")
    panels = figure.subplots(len(heights), sharex=True, height_ratios=heights)
    _draw_spectrogram(panels[0], picture)
    longest = max(map(len, picture.names), default=0)
    name_points = 7 * longest if picture.is_crowded else 14
    panels[0].set_title("\n".join(lines), loc="left", pad=8 + name_points, size=9)
    for axes, (label, (values, names)) in zip(panels[1:], matrices.items()):
        _draw_matrix(axes, picture, values, names)
        axes.set_ylabel(label)
    panels[-1].set_xlabel("seconds")
    return figure


def _wrap(line, inches):
    return textwrap.wrap(line, int(inches * _CHARACTERS_PER_INCH), subsequent_indent="    ")


def _draw_spectrogram(axes, picture):
    num_bins = picture.fbank.shape[1]
    axes.imshow(
        picture.fbank.T,
        origin="lower",
        aspect="auto",
        extent=(0, picture.seconds, 0, num_bins),
        cmap="magma",
        vmin=max(picture.fbank.min(), picture.fbank.max() - _DYNAMIC_RANGE),
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
            rotation=90 if picture.is_crowded else 0,
        )


def _draw_matrix(axes, picture, values, names):
    """Draws one row per label, the first one on top, and one column per subsampled frame."""
    extent = (0, _seconds(picture, values.shape[1]), len(names) - 0.5, -0.5)
    axes.imshow(values, aspect="auto", extent=extent, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlim(0, picture.seconds)


def _seconds(picture, subsampled):
    return subsampled * picture.subsampling * picture.frame_seconds
