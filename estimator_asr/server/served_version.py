"""A loaded version of the export: runs batches of rows, and closes once nobody uses it."""

from __future__ import annotations

import contextlib
import io
import os
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import soundfile
import tensorflow as tf

from estimator_asr.saved_model import export_info, recogniser
from tfrecord_builder import errors

Row = Mapping[str, object]  # bytes, or an array
HOTWORDS = "hotwords"
LOWEST_SCORE = np.finfo(np.float32).min  # of a hypothesis that there is not
_LINE_LENGTH = 300  # of what TensorFlow says


class ServedVersion:
    """A version in one session.

    Attributes:
        number: its directory's name, "" if that is not a number.
        info: content of export.json.
        definitions: SignatureDef by the name of the signature.
        load_seconds: that loading and the first batch took.
    """

    def __init__(self, version_dir: str):
        """Loads and warms up.

        Raises:
            errors.UserError: the version is damaged, or cannot recognise.
        """
        started = time.monotonic()
        name = os.path.basename(os.path.normpath(version_dir))
        self.version_dir, self.number = version_dir, name if name.isdecimal() else ""
        self.info = export_info.load(version_dir)
        self._loaded = recogniser.load_version(version_dir)
        self.definitions = self._loaded.definitions
        self._recognisers = {name: self._loaded.find(name) for name in self.definitions if name[0] != "_"}
        self._num_users, self._is_retired = 0, False
        self._warm_up()
        self.load_seconds = time.monotonic() - started

    @property
    def sample_rate(self) -> int:
        """Of the waveforms, in Hz."""
        return self.info.frontend.sample_rate

    @property
    def language(self) -> str:
        """Code of ISO 639: Chinese for pinyin, undetermined for characters or subwords of any language."""
        is_pinyin = self.info.language or self.info.token_type not in ("character", "bpe")
        return "zh" if is_pinyin else "und"

    def make_probe(self) -> Row:
        """Returns a second of noise as a row of the signature `waveform`."""
        noise = np.random.default_rng(0).normal(0, 0.1, self.sample_rate).astype(np.float32)
        return {"waveform": noise, "num_samples": np.int32(noise.size)}

    def run(self, signature: str, hotwords: Sequence[str], rows: Sequence[Row]) -> list[dict]:
        """Recognises a batch.

        Args:
            signature: its name.
            hotwords: for all rows, if the signature has such an input.
            rows: value of each other input without the axis of the batch; a batch is as wide as its longest.

        Returns:
            The outputs of each row, without the columns that pad them for the batch.

        Raises:
            errors.UserError: the graph refuses the inputs.
        """
        batch = {name: _stack([row[name] for row in rows]) for name in rows[0]}
        try:
            values = self._recognisers[signature].fetch({**batch, HOTWORDS: np.array(hotwords, object)})
        except tf.errors.InvalidArgumentError as error:
            raise errors.UserError(f"inputs: are refused by the model ({_describe(error)})") from error
        return [_trim({name: value[i] for name, value in values.items()}) for i in range(len(rows))]

    @contextlib.contextmanager
    def used(self) -> Iterator[ServedVersion]:
        """Keeps the session open for the block, also when another version takes over."""
        self.begin_use()
        try:
            yield self
        finally:
            self.end_use()

    def begin_use(self) -> None:
        self._num_users += 1

    def end_use(self) -> None:
        self._num_users -= 1
        self._close_if_unused()

    def retire(self) -> None:
        """Closes the session when nobody uses it any more."""
        self._is_retired = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._is_retired and not self._num_users:
            self._loaded.session.close()

    def _warm_up(self) -> None:
        definition = self.definitions.get("waveform")
        if definition is None or "status" not in definition.outputs:
            self._loaded.session.close()
            missing = "signature waveform" if definition is None else "output status"
            raise errors.UserError(
                f"{self.version_dir}: has no {missing}, expected an export of this version; export again"
            )
        probe, file = self.make_probe(), io.BytesIO()
        soundfile.write(file, probe["waveform"], self.sample_rate, format="WAV", subtype="PCM_16")
        try:
            self.run("waveform", (), [probe])
            self.run("serving_default", (), [{"wav_bytes": file.getvalue()}])
        except (errors.UserError, tf.errors.OpError, KeyError) as error:
            self._loaded.session.close()
            raise errors.UserError(
                f"{self.version_dir}: cannot recognise a second of noise ({_describe(error)}); export again"
            ) from error


def to_result(row: Row) -> dict:
    """Returns the outputs of a row as recogniser.Recogniser.run has them for one utterance."""
    batch = {name: _stack([value]) for name, value in row.items()}
    return {name: value for name, (value,) in recogniser.list_results(batch).items()}


def _describe(error: Exception) -> str:
    words = (getattr(error, "message", None) or str(error)).split()
    return " ".join(words)[:_LINE_LENGTH] or type(error).__name__


def _stack(values: Sequence[bytes | np.ndarray]) -> np.ndarray:
    if isinstance(values[0], bytes):
        return np.array(values, object)
    longest = max(value.shape[0] if value.ndim else 0 for value in values)
    return np.stack([_pad(value, longest) for value in values])


def _pad(value: np.ndarray, length: int) -> np.ndarray:
    if not value.ndim or len(value) == length:
        return value
    return np.pad(value, [(0, length - len(value))] + [(0, 0)] * (value.ndim - 1))


def _trim(row: dict) -> dict:
    """Drops the columns that only pad a row for its batch: characters that are "", the lowest scores."""
    counts = {}
    if "characters.character" in row:
        counts["characters"] = sum(1 for each in row["characters.character"] if each)
    if "n_best.score" in row:
        counts["n_best"] = np.count_nonzero(row["n_best.score"] > LOWEST_SCORE)
    return {name: _cut(value, counts.get(name.partition(".")[0])) for name, value in row.items()}


def _cut(value, count):
    return value if count is None or not np.ndim(value) else value[:count]
