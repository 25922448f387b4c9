"""batches.html: each utterance of the dumped batches as it is stored, as it was fed, and the difference."""

from __future__ import annotations

import base64
import io
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import jinja2
import matplotlib
import matplotlib.image
import numpy as np

from tfrecord_builder import files

_TEMPLATE = "batch_page.html"


class Utterance(NamedTuple):
    """What the page shows of one utterance.

    Attributes:
        labels: tokens of the ids that were fed.
        facts: name to text.
        pictures: title to what `draw` gave.
        audio: URL of its recording; empty for none.
        mismatches: sentences.
    """

    utterance_id: str
    transcript: str
    pronunciation: str
    labels: str
    facts: dict[str, str]
    pictures: dict[str, str]
    audio: str
    mismatches: Sequence[str]


def write(path: str, batches: Sequence[tuple[str, Sequence[Utterance]]]) -> None:
    """Writes the page: title and utterances of each batch."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(pathlib.Path(__file__).with_name(_TEMPLATE).read_text("utf-8"))
    html = template.render(batches=batches)
    with files.writing(path) as temporary:
        pathlib.Path(temporary).write_bytes(html.encode("utf-8", "replace"))


def draw_features(record: np.ndarray, batch: np.ndarray) -> dict[str, str]:
    """Draws features [num_frames, num_bins] as stored and as fed in one scale, and their difference."""
    scale = {"cmap": "magma", "vmin": float(np.min(record)), "vmax": float(np.max(record))}
    pictures = {"record": draw(record, **scale), "batch": draw(batch, **scale)}
    if record.shape != batch.shape:
        return pictures
    difference = batch - record
    largest = max(float(np.max(np.abs(difference))), 1e-6)
    shown = draw(difference, cmap="coolwarm", vmin=-largest, vmax=largest)
    return {**pictures, f"batch - record, up to {largest:.3g}": shown}


def draw(values: np.ndarray, *, cmap: str, vmin: float, vmax: float) -> str:
    """Draws a matrix [num_frames, num_bins], time to the right and frequency up, as a data URL of a PNG."""
    file = io.BytesIO()
    matplotlib.image.imsave(
        file,
        values.T,
        cmap=matplotlib.colormaps[cmap],
        vmin=vmin,
        vmax=max(vmax, vmin + 1e-6),
        origin="lower",
        format="png",
        metadata={"Software": None},
    )
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
