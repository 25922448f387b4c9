"""Where a trained Conformer emits its tokens, on recordings whose syllables have known boundaries.

A recording is one of 24 words of two syllables, between silences of 0.3 to 0.8 s. A syllable is a gliding
tone with a constant one above it. The second syllable often follows from the first, so that nothing but
the time of the sound ties a token to its place.
"""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from estimator_asr.experiment import config as config_lib
from estimator_asr.models import acoustic, losses, normalisation
from tfrecord_builder.audio import frontend

RATE = 16000
NUM_SYLLABLES = 6
WORDS = np.random.default_rng(5).permutation(NUM_SYLLABLES**2)[:24]
FRONTEND = frontend.FrontendConfig(num_mel_bins=20)
CONFIG = config_lib.AcousticConfig(
    encoder_layers=2,
    encoder_units=32,
    encoder_inner_units=64,
    subsampling_channels=8,
    acoustic_dropout=0.0,
    decoder_layers=0,
    local_ctc_weight=0.3,
)
STEPS, BATCH_SIZE, PEAK_RATE = 600, 16, 0.003
FRAME_SECONDS, CENTRE_SECONDS = 0.04, 0.0125  # encoder frame shift, and centre of the first window
TOLERANCE_SECONDS = 0.06


class Recording(NamedTuple):
    waveform: np.ndarray
    token_ids: tuple[int, int]
    spans: list[tuple[float, float]]  # start and end of each syllable, in seconds


def make_recording(rng) -> Recording:
    token_ids = tuple(int(part) for part in divmod(rng.choice(WORDS), NUM_SYLLABLES))
    speaker = rng.uniform(0.75, 1.33)
    lengths = rng.uniform([0.3, 0.02, 0.3], [0.8, 0.1, 0.8]) * RATE
    before, gap, after = (np.zeros(int(length)) for length in lengths)
    first, second = (make_syllable(token_id, speaker, rng) for token_id in token_ids)
    speech = np.concatenate([first, gap, second])
    speech += 0.02 * rng.standard_normal(len(speech))
    starts = len(before), len(before) + len(first) + len(gap)
    spans = [(start / RATE, (start + len(part)) / RATE) for start, part in zip(starts, (first, second))]
    return Recording(np.concatenate([before, speech, after]).astype(np.float32), token_ids, spans)


def make_syllable(token_id, speaker, rng):
    progress = np.linspace(0, 1, int(rng.uniform(0.2, 0.3) * RATE))
    low, high = 300 * speaker * 1.35**token_id, 2500 * speaker * 1.1 ** (2 * token_id % NUM_SYLLABLES)
    glide = np.cumsum(low * (1 + 0.3 * progress * (-1) ** token_id)) / RATE
    constant = high * np.arange(len(progress)) / RATE
    sound = np.sin(2 * np.pi * glide) + 0.5 * np.sin(2 * np.pi * constant)
    return rng.uniform(0.1, 0.3) * np.sqrt(np.sin(np.pi * progress)) * sound


@pytest.fixture(scope="module")
def data():
    """Returns batches of all training recordings and all held-out recordings, and the held-out recordings."""
    recordings = [make_recording(np.random.default_rng(seed)) for seed in range(512 + 64)]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        waveform = tf.compat.v1.placeholder(tf.float32, [None])
        extracted = frontend.extract(waveform, FRONTEND)
        features = [session.run(extracted, {waveform: each.waveform}) for each in recordings]
    fbank = np.zeros([len(features), max(map(len, features)), FRONTEND.num_bins], np.float32)
    for row, each in zip(fbank, features):
        row[: len(each)] = each
    arrays = (
        fbank,
        np.array([len(each) for each in features]),
        np.array([each.token_ids for each in recordings]),
    )
    return [each[:512] for each in arrays], [each[512:] for each in arrays], recordings[512:]


def train(examples, held_out):
    """Returns log probabilities of the held-out recordings, [number, num_frames, classes], and num_frames."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.set_random_seed(1)
        fbank = tf.compat.v1.placeholder(tf.float32, [None, None, FRONTEND.num_bins])
        num_frames, token_ids = (tf.compat.v1.placeholder(tf.int32, shape) for shape in ([None], [None, 2]))
        rate = tf.compat.v1.placeholder(tf.float32, [])
        step = _build_step(fbank, num_frames, token_ids, rate)
        with tf.compat.v1.variable_scope("", reuse=True):
            trained = acoustic.build(CONFIG, fbank, num_frames, num_classes=NUM_SYLLABLES + 1)
        session.run(tf.compat.v1.global_variables_initializer())
        rng = np.random.default_rng(3)
        for number in range(STEPS):
            chosen = rng.choice(len(examples[0]), BATCH_SIZE, replace=False)
            batch = dict(zip((fbank, num_frames, token_ids), (each[chosen] for each in examples)))
            factor = min(1, (number + 1) / 50, 2 * (STEPS - number) / STEPS)
            session.run(step, {**batch, rate: PEAK_RATE * factor})
        feeds = dict(zip((fbank, num_frames), held_out))
        return session.run([tf.nn.log_softmax(trained.ctc_logits), trained.num_frames], feeds)


def _build_step(fbank, num_frames, token_ids, rate):
    labels = token_ids, tf.fill(tf.shape(num_frames), 2)
    options = {"num_classes": NUM_SYLLABLES + 1, "seed": tf.constant([1, 2], tf.int64)}
    options.update(zip(("token_ids", "num_tokens"), labels))
    outputs = acoustic.build(CONFIG, fbank, num_frames, **options)
    whole, local = (
        losses.ctc_loss(logits, outputs.num_frames, *labels)
        for logits in (outputs.ctc_logits, outputs.local_logits)
    )
    loss = (1 - CONFIG.local_ctc_weight) * whole + CONFIG.local_ctc_weight * local
    averages = [average.assign_add(change) for average, change in normalisation.pending_updates()]
    optimizer = tf.compat.v1.train.AdamOptimizer(rate, 0.9, 0.98)
    gradients, variables = zip(*optimizer.compute_gradients(tf.reduce_mean(loss)))
    clipped, _ = tf.clip_by_global_norm(gradients, 10.0)
    return tf.group(optimizer.apply_gradients(zip(clipped, variables)), *averages)


def find_tokens(log_probs):
    """Returns the tokens of the best path, and the time in seconds at which each is most probable."""
    best, highest = log_probs.argmax(axis=1), log_probs.max(axis=1)
    runs = [list(frames) for _, frames in itertools.groupby(range(len(best)), best.__getitem__)]
    peaks = [max(frames, key=highest.__getitem__) for frames in runs if best[frames[0]] != NUM_SYLLABLES]
    return [(best[peak], CENTRE_SECONDS + FRAME_SECONDS * peak) for peak in peaks]


def is_inside(seconds, span):
    return span[0] - TOLERANCE_SECONDS <= seconds <= span[1] + TOLERANCE_SECONDS


@pytest.mark.slow
def test_tokens_are_emitted_near_their_syllables(data):
    """Fails if convolutions see the ends of recordings or, with this seed, if there is no local loss."""
    examples, held_out, recordings = data
    log_probs, num_frames = train(examples, held_out)
    inside = []
    for row, length, recording in zip(log_probs, num_frames, recordings):
        tokens = find_tokens(row[:length])
        if tuple(token_id for token_id, _ in tokens) == recording.token_ids:
            inside += [is_inside(seconds, span) for (_, seconds), span in zip(tokens, recording.spans)]
    assert len(inside) > 32, "fewer than a quarter of the words are right"
    assert np.mean(inside) >= 0.95
