"""Draws a prediction sample: a spectrogram with the CTC alignment, CTC probabilities and attention."""

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

from tfrecord_builder.audio import spectrogram
from tfrecord_builder.program import fonts

_DPI = 80
_MIN_INCHES, _INCHES_PER_SECOND, _MAX_INCHES = 5.0, 2.2, 24.0
_CHARACTERS_PER_INCH = 11
_INCHES_PER_TOKEN = 0.17
_LETTERS_PER_INCH = 10  # letters of a label per inch of the figure's width, a fifth of which is margins
_LEADER = {"arrowstyle": "-", "linewidth": 0.5, "shrinkA": 0, "shrinkB": 0}  # line from a label to its span
_MAX_NAMES_PER_INCH = 1.4  # names packed more tightly than this are rotated


class Picture(NamedTuple):
    """The contents of a picture."""

    lines: Sequence[str]  # text above the panels
    fbank: np.ndarray  # float32 [num_frames, num_bins]
    frame_seconds: float  # frame shift in seconds
    subsampling: int  # number of frames per subsampled frame
    names: Sequence[str]  # the labels as text
    probabilities: np.ndarray  # float32 [num_subsampled, num_labels], CTC probability of each label
    # Each label's (begin, end) in subsampled frames, end exclusive; empty if CTC cannot align the labels.
    spans: Sequence[tuple[int, int]]
    attention: Optional[np.ndarray]  # float32 [num_labels + 1, num_subsampled]; None without a decoder

    @property
    def seconds(self) -> float:
        return len(self.fbank) * self.frame_seconds


def draw(picture: Picture) -> bytes:
    """Returns the picture as a PNG file; Chinese characters become boxes if no installed font has them."""
    with matplotlib.rc_context({**fonts.rc_params(), "font.size": 9}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        file = io.BytesIO()
        matplotlib.backends.backend_agg.FigureCanvasAgg(_draw_figure(picture)).print_png(file)
    return file.getvalue()


def _draw_figure(picture):
    matrices = {"CTC": (picture.probabilities.T, picture.names)}
    if picture.attention is not None:
        matrices["attention"] = (picture.attention, [*picture.names, "end"])
    width = min(max(_MIN_INCHES, picture.seconds * _INCHES_PER_SECOND), _MAX_INCHES)
    options = {"width": int(width * _CHARACTERS_PER_INCH), "subsequent_indent": "    "}
    lines = [part for line in picture.lines for part in textwrap.wrap(line, **options)]
    heights = [2.4] + [0.5 + max(4, len(picture.names)) * _INCHES_PER_TOKEN] * len(matrices)
    size = (width, sum(heights) + 0.6 + 0.22 * len(lines))
    figure = matplotlib.figure.Figure(size, dpi=_DPI, layout="constrained")
    panels = figure.subplots(len(heights), sharex=True, height_ratios=heights)
    is_crowded = len(picture.names) > _MAX_NAMES_PER_INCH * width
    _draw_spectrogram(panels[0], picture, is_crowded)
    name_points = 7 * max(map(len, picture.names), default=0) if is_crowded else 14
    panels[0].set_title("\n".join(lines), loc="left", pad=8 + name_points, size=9)
    for axes, (label, (values, names)) in zip(panels[1:], matrices.items()):
        _draw_matrix(axes, picture, values, names)
        axes.set_ylabel(label)
    panels[-1].set_xlabel("seconds")
    return figure


def _draw_spectrogram(axes, picture, is_crowded):
    spectrogram.draw(axes, picture.fbank, picture.frame_seconds)
    axes.set_ylabel("bin")
    spans = [
        (_seconds(picture, begin), min(_seconds(picture, end), picture.seconds))
        for begin, end in picture.spans
    ]
    for begin, end in spans:
        axes.axvspan(begin, end, color="white", alpha=0.25, linewidth=0)
    centers = np.array([(begin + end) / 2 for begin, end in spans])
    num_letters = 1.8 if is_crowded else 1 + max(map(len, picture.names), default=0)
    width = num_letters / _LETTERS_PER_INCH * picture.seconds / axes.figure.get_figwidth()
    options = {"textcoords": "data", "ha": "center", "rotation": 90 if is_crowded else 0}
    top = picture.fbank.shape[1]
    for name, center, place in zip(picture.names, centers, spread(centers, width, picture.seconds)):
        axes.annotate(
            name, (center, top), (place, 1.04 * top), arrowprops=_LEADER, annotation_clip=False, **options
        )


def spread(centers: np.ndarray, width: float, end: float) -> np.ndarray:
    """Moves labels of the given width as little as needed so that they do not overlap or pass `end`."""
    steps = width * np.arange(len(centers))
    return np.minimum(np.maximum.accumulate(centers - steps) + steps, end - steps[::-1])


def _draw_matrix(axes, picture, values, names):
    """Draws values [num_labels, num_subsampled]: a row per label (the first on top), a column per frame."""
    extent = (0, _seconds(picture, values.shape[1]), len(names) - 0.5, -0.5)
    axes.imshow(values, aspect="auto", extent=extent, cmap="Greys", vmin=0, vmax=1, interpolation="nearest")
    axes.set_yticks(range(len(names)), names)
    axes.set_xlim(0, picture.seconds)


def _seconds(picture, subsampled):
    return subsampled * picture.subsampling * picture.frame_seconds
