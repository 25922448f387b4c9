"""Batches of valid and invalid WAV files; no file makes an operation fail."""

import collections
import struct

import numpy as np
import pytest
import tensorflow as tf
import wav_files

from estimator_asr.exporting.saved_model import wav

RATE = 16000


@pytest.fixture(scope="module")
def decode():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        wavs = tf.compat.v1.placeholder(tf.string, [None])
        yield session.make_callable(wav.decode_batch(wavs, RATE, 180), [wavs])


def test_wavs_of_different_lengths_are_padded_with_zeros(decode):
    long, short = np.float32([0.5, -0.25, 0.125, -1.0]), np.float32([0.25, 0.5])
    waveform, num_samples, status = decode([wav_files.encode(long), wav_files.encode(short)])
    assert waveform.tolist() == [long.tolist(), [0.25, 0.5, 0.0, 0.0]]
    assert (num_samples.tolist(), status.tolist()) == ([4, 2], [b"ok", b"ok"])


def test_a_wav_without_samples(decode):
    waveform, num_samples, status = decode([wav_files.encode(np.zeros([0], np.float32))])
    assert waveform.shape == (1, 0)
    assert (num_samples.tolist(), status.tolist()) == ([0], [b"ok"])


def test_a_batch_of_no_wavs(decode):
    waveform, num_samples, status = decode([])
    assert (waveform.shape[0], num_samples.shape, status.shape) == (0, (0,), (0,))


def test_each_file_of_a_batch_has_its_own_rate_and_kind(decode):
    """A file has exactly the same samples alone and in the batch."""
    rng = np.random.default_rng(2)
    kinds = [(8000, "PCM_U8"), (16000, "PCM_16"), (44100, "PCM_24"), (48000, "FLOAT"), (11025, "ULAW")]
    waveforms = [rng.uniform(-0.5, 0.5, rate // 10) for rate, _ in kinds]
    files = [wav_files.encode(waveform, *kind) for waveform, kind in zip(waveforms, kinds)]
    waveform, num_samples, status = decode([*files, b"bad"])
    assert num_samples.tolist() == [1600, 1600, 1600, 1600, 1599, 0]  # 1102 / 11025 x 16000 is 1599.3
    assert status.tolist() == [b"ok"] * 5 + [b"malformed"]
    for row, count, file in zip(waveform, num_samples, files):
        (alone,), *_ = decode([file])
        np.testing.assert_array_equal(row[:count], alone)
        assert not row[count:].any()


def test_a_file_that_is_too_long_is_not_decoded(decode):
    """The limit is 180 s: one sample more is too long."""
    files = [wav_files.encode(np.zeros(1000 * 180 + more, np.int16), 1000) for more in (0, 1)]
    waveform, num_samples, status = decode(files)
    assert waveform.shape == (2, 180 * RATE)
    assert num_samples.tolist() == [180 * RATE, 0]
    assert status.tolist() == [b"ok", b"too_long"]


def _mutate(rng, contents):
    """Returns a file with some bytes, sizes or chunks changed, or a part missing."""
    changed = bytearray(contents)
    for _ in range(rng.integers(1, 6)):
        place = int(rng.integers(0, max(min(len(changed), 80), 1)))
        kind = rng.integers(0, 6)
        if kind == 0:
            changed[place : place + 1] = rng.bytes(1)
        elif kind == 1:
            value = int(rng.choice([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32 - 8, 65535]))
            changed[place : place + 4] = struct.pack("<I", value)
        elif kind == 2:
            del changed[place : place + int(rng.integers(1, 40))]
        elif kind == 3:
            changed[place:place] = wav_files.make_chunk(rng.bytes(4), rng.bytes(int(rng.integers(0, 20))))
        elif kind == 4:
            del changed[int(rng.integers(0, len(changed) + 1)) :]
        else:
            changed[place:place] = rng.choice([b"data", b"fmt ", b"ds64", b"RF64", b"\xfe\xff"])
    return bytes(changed)


def test_corrupted_files_do_not_fail_the_batch(decode):
    """Each of thousands of damaged files is decoded or malformed; a valid file in the batch is decoded."""
    rng = np.random.default_rng(11)
    valid = wav_files.encode(np.float32([0.5, -0.25]))
    noise = rng.uniform(-1, 1, (57, 2))
    seeds = [wav_files.encode(noise, 16000, subtype, kind) for kind, subtype in wav_files.KINDS]
    found = collections.Counter()
    for _ in range(100):
        files = [_mutate(rng, seeds[rng.integers(len(seeds))]) for _ in range(40)]
        waveform, num_samples, status = decode([valid, *files])
        assert waveform[0, :2].tolist() == [0.5, -0.25] and num_samples[0] == 2
        assert num_samples.max() <= 180 * RATE
        assert not num_samples[status != b"ok"].any()
        found.update(status[1:].tolist())
    assert set(found) <= {b"ok", b"malformed", b"too_long"}
    assert found[b"ok"] > 400 < found[b"malformed"]


def test_random_bytes_are_malformed(decode):
    rng = np.random.default_rng(12)
    files = [rng.bytes(int(rng.integers(0, 3000))) for _ in range(200)]
    _, num_samples, status = decode(files)
    assert set(status.tolist()) == {b"malformed"}
    assert not num_samples.any()
