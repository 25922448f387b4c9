import kaldi_native_fbank
import numpy as np
import pytest
import spoken
import tensorflow as tf

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, frontend

CONFIG = frontend.FrontendConfig()
SPECTROGRAM = frontend.FrontendConfig(frontend="log_spectrogram")


def speech_like(num_samples, seed=0):
    """Returns noise with a spectrum like that of speech, slowly rising and falling; no bin is empty."""
    noise = np.random.RandomState(seed).normal(size=num_samples)
    swell = 0.55 + 0.45 * np.sin(2 * np.pi * np.arange(num_samples) / 8000)
    return (0.1 * swell * (noise + np.roll(noise, 1) + np.roll(noise, 2))).astype(np.float32)


def mel(hz):
    return 1127 * np.log(1 + hz / 700)


def numpy_log_mel(waveform, config):
    """Computes Kaldi's fbank in double precision, following feature-window.cc and mel-computations.cc."""
    window_samples, hop_samples = round(config.sample_rate * 0.025), round(config.sample_rate * 0.01)
    num_ffts = 1
    while num_ffts < window_samples:
        num_ffts *= 2
    low, high = mel(20), mel(config.sample_rate / 2)
    step = (high - low) / (config.num_mel_bins + 1)
    rows = []
    for start in range(0, len(waveform) - window_samples + 1, hop_samples):
        frame = 32768.0 * waveform[start : start + window_samples].astype(np.float64)
        frame -= frame.mean()
        for i in range(window_samples - 1, 0, -1):
            frame[i] -= 0.97 * frame[i - 1]
        frame[0] -= 0.97 * frame[0]
        frame *= (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window_samples) / (window_samples - 1))) ** 0.85
        power = np.abs(np.fft.fft(frame, num_ffts)[: num_ffts // 2]) ** 2
        row = []
        for index in range(config.num_mel_bins):
            left, center, right = low + step * np.array([index, index + 1, index + 2])
            energy = 0.0
            for k in range(num_ffts // 2):
                position = mel(k * config.sample_rate / num_ffts)
                if left < position <= center:
                    energy += power[k] * (position - left) / (center - left)
                elif center < position < right:
                    energy += power[k] * (right - position) / (right - center)
            row.append(np.log(max(energy, np.finfo(np.float32).eps)))
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("sample_rate, num_mel_bins", [(16000, 80), (8000, 40), (22050, 80)])
def test_log_mel_equals_an_independent_numpy_version(sample_rate, num_mel_bins):
    config = frontend.FrontendConfig(sample_rate=sample_rate, num_mel_bins=num_mel_bins)
    waveform = speech_like(sample_rate // 8)
    features = frontend.extract(waveform, config).numpy()
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, numpy_log_mel(waveform, config), atol=1e-3)


def kaldi_log_mel(waveform):
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.dither = 0
    options.mel_opts.num_bins = 80
    extractor = kaldi_native_fbank.OnlineFbank(options)
    extractor.accept_waveform(16000, (32768 * waveform).tolist())
    extractor.input_finished()
    return np.stack([extractor.get_frame(index) for index in range(extractor.num_frames_ready)])


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    """Speech of each voice, with and without room noise, float32 [num_samples]."""
    directory = tmp_path_factory.mktemp("speech")
    spoken.speak(directory)
    return lambda variant, name: audio_files.read_audio(str(directory / f"{variant}-{name}.wav"), 16000)


VARIANTS = [variant for _, variant in spoken.SENTENCES]


@pytest.mark.parametrize("variant", VARIANTS)
def test_log_mel_of_speech_equals_kaldi_native_fbank(speech, variant):
    """All bins of all frames are compared; the noise of the room is 25 dB below the speech."""
    waveform = speech(variant, "room")
    features, expected = frontend.extract(waveform, CONFIG).numpy(), kaldi_log_mel(waveform)
    assert len(features) > 100
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize("variant", VARIANTS)
def test_log_mel_without_room_noise_equals_kaldi_native_fbank_within_float32(speech, variant):
    """Both sum in float32, so bins 80 dB below the strongest bin of a frame contain only rounding errors."""
    waveform = speech(variant, "still")
    features, expected = frontend.extract(waveform, CONFIG).numpy(), kaldi_log_mel(waveform)
    differences = np.abs(features - expected)
    is_heard = expected > expected.max(axis=1, keepdims=True) - 8 * np.log(10)
    assert np.mean(is_heard) > 0.9  # includes all bins of silent frames
    assert differences[is_heard].max() < 1e-3
    assert differences.max() < 0.05
    is_silent = ~np.lib.stride_tricks.sliding_window_view(waveform, 400)[::160].any(axis=1)
    assert np.sum(is_silent) > 5
    np.testing.assert_array_equal(features[is_silent], expected[is_silent])


def test_log_spectrogram_equals_numpy():
    waveform = speech_like(2000)
    rows = []
    for start in range(0, 2000 - 400 + 1, 160):
        frame = 32768.0 * waveform[start : start + 400].astype(np.float64) * np.hamming(400)
        rows.append(np.log(np.abs(np.fft.fft(frame))[:200] + 1))
    features = frontend.extract(waveform, SPECTROGRAM).numpy()
    assert features.shape == (11, 200)
    np.testing.assert_allclose(features, rows, atol=1e-3)


def test_a_tone_peaks_in_its_own_bin():
    waveform = np.sin(2 * np.pi * 1000 * np.arange(1600) / 16000).astype(np.float32)
    # In mel: 1000 Hz is 1000, 20 Hz is 32, Nyquist is 2840. Centers: 32 + 34.7 * (bin + 1), 1002 for bin 27.
    assert (frontend.extract(waveform, CONFIG).numpy().argmax(axis=1) == 27).all()
    # A bin of the spectrogram is 16000 / 400 = 40 Hz wide.
    assert (frontend.extract(waveform, SPECTROGRAM).numpy().argmax(axis=1) == 25).all()


def test_gain_adds_a_constant_to_the_log_mel_features():
    waveform = speech_like(4000)
    louder = frontend.extract(2 * waveform, CONFIG) - frontend.extract(waveform, CONFIG)
    np.testing.assert_allclose(louder, np.full([23, 80], 2 * np.log(2)), atol=1e-3)


def test_silence_has_the_value_of_the_energy_floor():
    features = frontend.extract(np.zeros(800, np.float32), CONFIG).numpy()
    np.testing.assert_allclose(features, np.full([3, 80], np.log(2.0**-23)), rtol=1e-6)
    assert not frontend.extract(np.zeros(800, np.float32), SPECTROGRAM).numpy().any()


@pytest.mark.parametrize("config", [CONFIG, SPECTROGRAM])
@pytest.mark.parametrize(
    "num_samples, expected", [(0, 0), (399, 0), (400, 1), (559, 1), (560, 2), (16000, 98)]
)
def test_num_frames_is_the_length_of_the_features(config, num_samples, expected):
    assert frontend.num_frames(num_samples, config) == expected
    assert frontend.num_frames(tf.constant([num_samples]), config).numpy().tolist() == [expected]
    features = frontend.extract(np.zeros([2, num_samples], np.float32), config)
    assert features.shape == (2, expected, config.num_bins)


@pytest.mark.parametrize("num_samples, expected", [(479, 0), (480, 3), (799, 4), (16000, 100)])
def test_frames_of_a_waveform_are_its_samples(num_samples, expected):
    """There are no frames if the waveform is too short for the encoder."""
    config = frontend.FrontendConfig(frontend="waveform")
    assert (frontend.num_frames(num_samples, config), config.num_bins) == (expected, 160)
    assert frontend.num_frames(tf.constant([num_samples]), config).numpy().tolist() == [expected]
    waveform = speech_like(num_samples)
    frames = frontend.extract(waveform, config).numpy()[:expected]
    np.testing.assert_array_equal(frames.reshape(-1), waveform[: 160 * expected])


def test_log_mel_of_waveform_features_is_computed_from_the_samples():
    config, waveform = frontend.FrontendConfig(frontend="waveform"), speech_like(1600)
    picture = frontend.log_mel_of(waveform.reshape(10, 160), config)
    np.testing.assert_allclose(picture, frontend.extract(waveform, CONFIG).numpy(), rtol=1e-5)
    assert picture.shape == (8, 80)


def test_num_subsampled_frames_rounds_up():
    assert [frontend.num_subsampled_frames(n, factor=4) for n in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]
    assert frontend.num_subsampled_frames(tf.constant([5, 8]), factor=2).numpy().tolist() == [3, 4]


@pytest.mark.parametrize("config", [CONFIG, SPECTROGRAM])
def test_padding_and_batching_do_not_change_a_frame(config):
    waveforms = np.stack([speech_like(3000, seed) for seed in range(6)])
    padded = np.pad(waveforms, ((0, 0), (0, 5000))).reshape(2, 3, 8000)
    batch = frontend.extract(padded, config).numpy()
    assert batch.shape == (2, 3, 48, config.num_bins)
    for index in range(6):
        alone = frontend.extract(waveforms[index], config).numpy()
        np.testing.assert_allclose(batch[index // 3, index % 3, : len(alone)], alone, atol=1e-4)


@pytest.mark.parametrize("config", [CONFIG, SPECTROGRAM])
def test_a_graph_with_unknown_sizes_returns_the_same_as_eager_mode(config):
    waveforms = np.stack([speech_like(2000, seed) for seed in range(2)])
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        placeholder = tf.compat.v1.placeholder(tf.float32, [None, None])
        features = frontend.extract(placeholder, config)
        assert features.shape.as_list() == [None, None, config.num_bins]
        result = session.run(features, {placeholder: waveforms})
        assert session.run(features, {placeholder: waveforms[:, :100]}).shape == (2, 0, config.num_bins)
    np.testing.assert_allclose(result, frontend.extract(waveforms, config), atol=1e-4)


@pytest.mark.long
def test_a_saved_model_extracts_the_same_features(tmp_path):
    module = tf.Module()
    signature = [tf.TensorSpec([None, None], tf.float32)]
    module.extract = tf.function(lambda wave: frontend.extract(wave, CONFIG), input_signature=signature)
    tf.saved_model.save(module, str(tmp_path))
    waveform = speech_like(2000)[np.newaxis]
    features = tf.saved_model.load(str(tmp_path)).extract(waveform)
    np.testing.assert_allclose(features, frontend.extract(waveform, CONFIG), atol=1e-5)


def test_num_bins():
    assert CONFIG.num_bins == 80
    assert SPECTROGRAM.num_bins == 200
    assert frontend.FrontendConfig(frontend="log_spectrogram", sample_rate=8000).num_bins == 100


@pytest.mark.parametrize(
    "name, change, said",
    [
        ("waveform", {"num_mel_bins": 40}, "--num_mel_bins is 40, expected 80 "),
        ("waveform", {"sample_rate": 8000}, "--sample_rate is 8000, expected 16000 "),
        ("waveform", {"hop_ms": 20.0}, "--hop_ms is 20, expected 10 "),
        ("whisper_log_mel", {"sample_rate": 8000}, "--sample_rate is 8000, expected 16000 "),
        ("whisper_log_mel", {"num_mel_bins": 64}, "--num_mel_bins is 64, expected 80 or 128 "),
        ("whisper_log_mel", {"window_ms": 20.0}, "--window_ms is 20, expected 25 "),
        ("whisper_log_mel", {"hop_ms": 20.0}, "--hop_ms is 20, expected 10 "),
    ],
)
def test_settings_that_no_encoder_was_trained_with_are_refused(name, change, said):
    (flag,) = change
    with pytest.raises(errors.UserError, match=f"^{said}for --frontend={name}; leave --{flag} out$"):
        frontend.FrontendConfig(frontend=name, **change)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"frontend": "mfcc"}, "flag --frontend=mfcc: expected one of log_mel, log_spectrogram"),
        ({"sample_rate": 16}, "flag --sample_rate=16: expected at least 4000 and at most 96000"),
        (
            {"frontend": "log_spectrogram", "num_mel_bins": 40},
            "--frontend=log_spectrogram, --num_mel_bins=40: a spectrogram has no mel bins; leave one of the",
        ),
        ({"hop_ms": 0.0}, "flag --hop_ms=0.0: expected at least 1"),
        (
            {"num_mel_bins": 128, "sample_rate": 8000},
            "--num_mel_bins=128 with --sample_rate=8000 and --window_ms=25: some mel bins contain no FFT fre",
        ),
    ],
)
def test_invalid_settings_are_refused(settings, message):
    with pytest.raises(errors.UserError, match=message):
        frontend.FrontendConfig(**settings)
