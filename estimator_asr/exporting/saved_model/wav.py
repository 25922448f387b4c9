"""Decodes a batch of WAV files with core TensorFlow operations, none of which fails on an invalid file.

Reads PCM with 8 (unsigned) to 32 bits, IEEE float with 32 or 64 bits, A-law and mu-law, plain or as
WAVE_FORMAT_EXTENSIBLE, in RIFF, RF64 and BW64 files ("Multimedia Programming Interface and Data
Specifications 1.0", 1991; EBU Tech 3306). A file is read to its end if its length was unknown when its header
was written, as when ffmpeg and sox write to a pipe, or if it is shorter than its header says. A file whose
header says 0 samples is also read to its end, and its status is `unfinished`, unless other chunks fill the
rest of the file.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from estimator_asr.exporting.saved_model import resampling, statuses
from tfrecord_builder.audio import audio_files

_UNKNOWN_SIZE = 0xFFFFFFFF
_RIFF_BYTES, _CHUNK_BYTES, _FORMAT_BYTES, _EXTENSIBLE_BYTES = 12, 8, 16, 40
_PCM, _FLOAT, _A_LAW, _MU_LAW, _EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
_LARGE_SIZE_START = 28  # offset of the 64-bit data size in ds64, the first chunk of an RF64 file


class Header(NamedTuple):
    """Fields from the headers of a batch of files, int64 [batch]; 0 where `is_valid` (bool) is false."""

    is_valid: tf.Tensor
    tag: tf.Tensor  # the encoding of the samples
    sample_rate: tf.Tensor  # Hz
    num_channels: tf.Tensor
    sample_bytes: tf.Tensor  # bytes per sample
    data_start: tf.Tensor  # byte offset of the first sample
    num_frames: tf.Tensor  # samples per channel
    is_unfinished: tf.Tensor  # bool: the header says 0 samples, but there are some


def decode_batch(
    wavs: tf.Tensor, sample_rate: int, max_seconds: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Decodes WAV files, string [batch], mixes their channels and resamples them to `sample_rate`.

    Returns:
        waveform float32 [batch, max_samples], zero at or beyond num_samples; num_samples int32 [batch]; and
        status string [batch]: ok, malformed or too_long. Only files whose status is ok have samples.
    """
    header = read_headers(wavs, audio_files.SAMPLE_RATES_HZ)
    is_too_long = header.num_frames > max_seconds * header.sample_rate
    status = tf.where(is_too_long, statuses.TOO_LONG, statuses.OK)
    status = tf.where(header.is_valid, status, statuses.MALFORMED)

    def decode_one(item: tuple[tf.Tensor, Header, tf.Tensor]) -> tf.Tensor:
        contents, fields, is_ok = item

        def read():
            return resampling.resample(decode(contents, fields), fields.sample_rate, sample_rate)

        return tf.cond(is_ok, read, lambda: tf.zeros([0]))

    ragged = tf.RaggedTensorSpec([None], tf.float32, ragged_rank=0)
    items = (wavs, header, tf.equal(status, statuses.OK))
    waveforms = tf.map_fn(decode_one, items, fn_output_signature=ragged)
    return waveforms.to_tensor(), tf.cast(waveforms.row_lengths(), tf.int32), status


def read_headers(wavs: tf.Tensor, sample_rates: range) -> Header:
    """Reads the headers of WAV files, string [batch]; sample rates outside `sample_rates` are invalid."""
    format_chunk, data_chunk, has_both, is_unfinished = _find_chunks(wavs)
    fields = _read(wavs, format_chunk + _CHUNK_BYTES, tf.uint16, _EXTENSIBLE_BYTES // 2)  # [batch, 20]
    tag, num_channels, rate_low, rate_high, _, _, frame_bytes, num_bits = (fields[:, i] for i in range(8))
    is_extensible = tf.equal(tag, _EXTENSIBLE)
    tag = tf.where(is_extensible, fields[:, 12], tag)
    rate, sample_bytes = rate_low + rate_high * 65536, (num_bits + 7) // 8
    smallest = tf.where(is_extensible, tf.constant(_EXTENSIBLE_BYTES, tf.int64), _FORMAT_BYTES)
    is_valid = has_both & (_read_uint32(wavs, format_chunk + 4) >= smallest)
    is_valid &= _is_encoding(tag, num_bits) & (num_channels > 0)
    is_valid &= tf.equal(frame_bytes, num_channels * sample_bytes)
    is_valid &= (rate >= sample_rates.start) & (rate < sample_rates.stop)
    num_frames = _count_data_bytes(wavs, data_chunk, is_unfinished) // tf.maximum(frame_bytes, 1)
    values = (tag, rate, num_channels, sample_bytes, data_chunk + _CHUNK_BYTES, num_frames, is_unfinished)
    return Header(is_valid, *(tf.where(is_valid, value, tf.zeros_like(value)) for value in values))


def decode(wav: tf.Tensor, header: Header) -> tf.Tensor:
    """Decodes one file, string [], whose header (fields of shape []) is valid; returns float32 [num_frames].

    Full scale is 1. Channels are mixed as in audio_files. An incomplete last frame is ignored.
    """
    num_bytes = header.num_frames * header.num_channels * header.sample_bytes
    data = tf.strings.substr(wav, header.data_start, num_bytes)
    decoders = {
        (_PCM, 1): lambda: (tf.cast(tf.io.decode_raw(data, tf.uint8), tf.float32) - 128.0) / 128.0,
        (_PCM, 2): lambda: tf.cast(tf.io.decode_raw(data, tf.int16), tf.float32) / 2.0**15,
        (_PCM, 3): lambda: _decode_24_bits(data),
        (_PCM, 4): lambda: tf.cast(tf.io.decode_raw(data, tf.int32), tf.float32) / 2.0**31,
        (_FLOAT, 4): lambda: tf.io.decode_raw(data, tf.float32),
        (_FLOAT, 8): lambda: tf.cast(tf.io.decode_raw(data, tf.float64), tf.float32),
        (_A_LAW, 1): lambda: tf.gather(_a_law(), tf.cast(tf.io.decode_raw(data, tf.uint8), tf.int32)),
        (_MU_LAW, 1): lambda: tf.gather(_mu_law(), tf.cast(tf.io.decode_raw(data, tf.uint8), tf.int32)),
    }
    is_match = [tf.equal(header.tag, tag) & tf.equal(header.sample_bytes, size) for tag, size in decoders]
    index = tf.argmax(tf.cast(tf.stack(is_match), tf.int32), output_type=tf.int32)
    samples = tf.switch_case(index, list(decoders.values()))
    by_channel = tf.reshape(samples, tf.stack([-1, header.num_channels]))
    return tf.cond(tf.equal(header.num_channels, 1), lambda: samples, lambda: _mix(by_channel))


def _mix(samples: tf.Tensor) -> tf.Tensor:
    signals = samples, tf.reduce_sum(samples, 1)
    levels, total = (tf.math.reduce_variance(signal, 0) for signal in signals)
    loudest = tf.reduce_max(levels)
    loud = tf.argmax(tf.cast(levels >= audio_files.LOUD * loudest, tf.int32))
    return tf.cond(
        total < audio_files.CANCELLED * loudest,
        lambda: tf.gather(samples, loud, axis=1),
        lambda: tf.reduce_mean(samples, axis=1),
    )


def _decode_24_bits(data: tf.Tensor) -> tf.Tensor:
    """Decodes 24-bit samples, whose three bytes become the upper bytes of an int32."""
    parts = tf.reshape(tf.io.decode_raw(data, tf.uint8), [-1, 3])
    return tf.cast(tf.bitcast(tf.pad(parts, [[0, 0], [1, 0]]), tf.int32), tf.float32) / 2.0**31


def _a_law() -> np.ndarray:
    """Returns the sample that each A-law byte encodes (ITU-T G.711), float32 [256]."""
    codes = np.arange(256) ^ 0x55
    exponents, mantissas = codes >> 4 & 7, (codes & 15) * 16 + 8
    sizes = np.where(exponents == 0, mantissas, (mantissas + 256) << np.maximum(exponents - 1, 0))
    return np.float32(np.where(codes & 128, sizes, -sizes) / 2.0**15)


def _mu_law() -> np.ndarray:
    """Returns the sample that each mu-law byte encodes (ITU-T G.711), float32 [256]."""
    codes = np.arange(256) ^ 0xFF
    sizes = (((codes & 15) * 8 + 132) << (codes >> 4 & 7)) - 132
    return np.float32(np.where(codes & 128, -sizes, sizes) / 2.0**15)


def _find_chunks(wavs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Finds the chunks "fmt " and "data".

    Returns:
        The offsets of "fmt " and "data", int64 [batch]; True for RIFF files that have both, bool [batch]; and
        True if the size of "data" is 0, but no other chunks fill the rest of the file, bool [batch].
    """
    lengths = tf.cast(tf.strings.length(wavs), tf.int64)
    none = tf.zeros_like(lengths)

    def has_chunk(position, *_):
        return tf.reduce_any(position + _CHUNK_BYTES <= lengths)

    def read_chunk(position, format, data):
        name, size = _substr(wavs, position, 4), _read_uint32(wavs, position + 4)
        is_whole, is_first = position + _CHUNK_BYTES <= lengths, tf.equal(data, 0)
        is_data = tf.equal(name, "data") & is_whole & is_first
        format = tf.where(tf.equal(name, "fmt ") & tf.equal(format, 0), position, format)
        after = position + _CHUNK_BYTES + tf.where(is_data, none, size + size % 2)
        after = tf.where(is_data & tf.not_equal(_read_data_size(wavs, position), 0), lengths, after)
        is_chunk = is_first | tf.strings.regex_full_match(name, "[ -~]{4}")
        after = tf.where(is_chunk, after, lengths + 2)
        return tf.where(is_whole, after, position), format, tf.where(is_data, position, data)

    start = (none + _RIFF_BYTES, none, none)
    end, format, data = tf.while_loop(has_chunk, read_chunk, start, maximum_iterations=statuses.MAX_CHUNKS)
    kind = _substr(wavs, none, 4)
    is_riff = tf.reduce_any([tf.equal(kind, name) for name in ("RIFF", "RF64", "BW64")], axis=0)
    is_riff &= tf.equal(_substr(wavs, none + 8, 4), "WAVE")
    # `end` is lengths + 1 if only the final padding byte is missing.
    is_unfinished = tf.not_equal(end, lengths) & tf.not_equal(end, lengths + 1)
    return format, data, is_riff & (format > 0) & (data > 0), is_unfinished


def _is_encoding(tag: tf.Tensor, num_bits: tf.Tensor) -> tf.Tensor:
    is_pcm = tf.equal(tag, _PCM) & (num_bits > 0) & (num_bits <= 32)
    is_float = tf.equal(tag, _FLOAT) & (tf.equal(num_bits, 32) | tf.equal(num_bits, 64))
    is_law = (tf.equal(tag, _A_LAW) | tf.equal(tag, _MU_LAW)) & tf.equal(num_bits, 8)
    return is_pcm | is_float | is_law


def _count_data_bytes(wavs: tf.Tensor, data: tf.Tensor, is_unfinished: tf.Tensor) -> tf.Tensor:
    """Returns the samples' size in bytes, int64 [batch]; if unknown, the size of the rest of the file."""
    lengths = tf.cast(tf.strings.length(wavs), tf.int64)
    present = tf.maximum(lengths - data - _CHUNK_BYTES, 0)
    size = _read_data_size(wavs, data)
    is_unknown = (size < 0) | tf.equal(size, _UNKNOWN_SIZE) | is_unfinished
    return tf.where(is_unknown, present, tf.minimum(size, present))


def _read_data_size(wavs: tf.Tensor, data: tf.Tensor) -> tf.Tensor:
    size, none = _read_uint32(wavs, data + 4), tf.zeros_like(data)
    has_large_size = tf.equal(_substr(wavs, none + _RIFF_BYTES, 4), "ds64") & tf.equal(size, _UNKNOWN_SIZE)
    return tf.where(has_large_size, _read(wavs, none + _LARGE_SIZE_START, tf.int64, 1)[:, 0], size)


def _read(wavs: tf.Tensor, start: tf.Tensor, dtype: tf.DType, count: int) -> tf.Tensor:
    """Returns little-endian integers from `start`, int64 [batch, count]; bytes beyond a file's end are 0."""
    num_bytes = count * dtype.size
    return tf.cast(tf.io.decode_raw(_substr(wavs, start, num_bytes), dtype, fixed_length=num_bytes), tf.int64)


def _read_uint32(wavs: tf.Tensor, start: tf.Tensor) -> tf.Tensor:
    return _read(wavs, start, tf.int32, 1)[:, 0] & _UNKNOWN_SIZE


def _substr(wavs: tf.Tensor, start: tf.Tensor, num_bytes: int) -> tf.Tensor:
    """Returns num_bytes bytes from offset `start`, int64 [batch], or fewer at the end of a file."""
    start = tf.minimum(start, tf.cast(tf.strings.length(wavs), tf.int64))
    return tf.strings.substr(wavs, start, tf.fill(tf.shape(start), tf.constant(num_bytes, tf.int64)))
