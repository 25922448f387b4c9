import os

import numpy as np
import pytest
import small_augmentation
import small_corpora
import soundfile

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files
from tfrecord_builder.audio.augmentation import codecs, copies, effects

RATE = small_corpora.SAMPLE_RATE
Variant = copies.Variant


def peak_hz(waveform):
    """Returns the loudest frequency in Hz, rounded to 0.01."""
    spectrum = np.abs(np.fft.rfft(waveform * np.hanning(len(waveform)), 100 * RATE))
    return np.argmax(spectrum) / 100


def snr_db(speech, noisy):
    noise = np.float64(noisy) - speech
    return 10 * np.log10(np.mean(np.square(speech, dtype=np.float64)) / np.mean(np.square(noise)))


@pytest.mark.parametrize("speed, num_samples, hz", [(0.9, 17778, 396), (1.1, 14545, 484), (2.0, 8000, 880)])
def test_speed_changes_length_and_pitch(speed, num_samples, hz):
    slower = effects.apply(small_corpora.tone(1.0, 440.0), RATE, Variant(speed))
    assert slower.dtype == np.float32 and slower.shape == (num_samples,)
    assert peak_hz(slower) == pytest.approx(hz, abs=0.02)
    assert np.abs(slower[2000:-2000]).max() == pytest.approx(0.3, abs=0.001)


def test_an_impulse_response_with_one_non_zero_sample_changes_only_the_sign():
    speech = small_augmentation.noise(5000)
    for response in ([1.0], [-0.25], [0.0] * 700 + [0.5] + [0.0] * 50):
        heard = effects.reverberate(speech, np.float32(response))
        assert heard.dtype == np.float32
        np.testing.assert_allclose(heard, np.sign(sum(response)) * speech, atol=1e-6)


def test_reverberation_is_the_convolution_from_the_direct_path_on():
    speech, response = small_augmentation.noise(3000), small_augmentation.noise(500, seed=1)
    response[120] = 2.0
    expected = np.convolve(speech.astype(np.float64), response)[120:3120]
    expected *= np.linalg.norm(speech) / np.linalg.norm(expected)
    np.testing.assert_allclose(effects.reverberate(speech, response), expected, atol=1e-6)


@pytest.mark.parametrize("num_samples", [1, 2, 400, 12345])
def test_reverberation_keeps_length_and_energy(num_samples):
    speech = small_augmentation.noise(num_samples)
    response = small_augmentation.noise(8000, seed=1) * np.exp(-np.arange(8000) / 1500).astype(np.float32)
    response[40] = 0.9
    heard = effects.reverberate(speech, response)
    assert heard.shape == speech.shape
    assert np.sum(heard**2) == pytest.approx(np.sum(speech**2), rel=1e-5)


def test_the_direct_path_may_be_negative():
    speech = small_augmentation.noise(500)
    heard = effects.reverberate(speech, np.float32([0.0, -1.0, 0.3]))
    expected = np.convolve(speech, [-1.0, 0.3])[:500]
    np.testing.assert_allclose(heard / heard.std(), expected / expected.std(), atol=1e-5)


def test_reverberation_and_noise_keep_silence_silent():
    assert not effects.reverberate(np.zeros(100, np.float32), small_augmentation.noise(10)).any()
    assert not effects.add_noise(np.zeros(100, np.float32), small_augmentation.noise(100), 10.0).any()


@pytest.mark.parametrize("wanted", [-5.0, 0.0, 12.3, 40.0])
def test_noise_has_the_requested_level(folders, wanted):
    speech = small_corpora.tone(2.0)
    cafe = os.path.join(folders["noise_dir"], "cafe.wav")
    noisy = effects.apply(speech, RATE, Variant(1.0, 1, None, cafe, 3.0, 0.25, wanted))
    assert noisy.dtype == np.float32
    assert snr_db(speech, noisy) == pytest.approx(wanted, abs=0.1)
    added = (noisy - speech) / np.std(noisy - speech)
    expected = audio_files.read_audio(cafe, RATE)[4000:36000]
    np.testing.assert_allclose(added, expected / np.std(expected), atol=0.02)


def test_short_noise_is_repeated(folders):
    street = os.path.join(folders["noise_dir"], "street.flac")
    speech = small_corpora.tone(2.0)
    added = effects.apply(speech, RATE, Variant(1.0, 1, None, street, 0.5, 0.125, 0.0)) - speech
    assert np.std(added[:6000]) == pytest.approx(np.std(speech), rel=0.05)
    np.testing.assert_allclose(added[6000:14000], added[14000:22000], atol=1e-6)
    np.testing.assert_allclose(added[:6000], added[8000:14000], atol=1e-6)
    np.testing.assert_allclose(added[30000:], added[22000:24000], atol=1e-6)


def test_noise_of_another_rate_is_resampled(folders):
    path = os.path.join(folders["noise_dir"], "hum.wav")
    small_corpora.write_audio(path, small_corpora.tone(3.0, 700.0, sample_rate=48000), sample_rate=48000)
    speech = small_augmentation.noise(RATE, level=0.001)
    noisy = effects.apply(speech, RATE, Variant(1.0, 1, None, path, 3.0, 1.0, -20.0))
    assert peak_hz(noisy) == pytest.approx(700, abs=0.05)


def test_silent_noise_adds_nothing(folders):
    path = small_corpora.write_audio(os.path.join(folders["noise_dir"], "mute.wav"), np.zeros(RATE))
    speech = small_corpora.tone(1.0)
    noisy = effects.apply(speech, RATE, Variant(1.0, 1, None, path, 1.0, 0.0, 5.0))
    np.testing.assert_array_equal(noisy, speech)


def test_volume_scales_without_clipping():
    speech = np.float32([0.5, -0.25, 1.0])
    louder = effects.apply(speech, RATE, Variant(1.0, 1, volume_db=20.0))
    assert louder.dtype == np.float32
    np.testing.assert_allclose(louder, [5.0, -2.5, 10.0], rtol=1e-6)


def test_effects_are_applied_in_the_order_speed_room_noise_volume(folders):
    """The noise level refers to the slowed speech with reverberation; the gain changes both."""
    rooms, noises = (folders[name] for name in ("rir_dir", "noise_dir"))
    hall, cafe = os.path.join(rooms, "hall1.wav"), os.path.join(noises, "cafe.wav")
    speech = small_corpora.tone(1.0)
    slowed, heard = (
        effects.apply(speech, RATE, variant) for variant in (Variant(0.9), Variant(0.9, 1, hall))
    )
    noisy = effects.apply(speech, RATE, Variant(0.9, 1, hall, cafe, 3.0, 0.0, 10.0, 6.0)) / 10 ** (6 / 20)
    np.testing.assert_array_equal(heard, effects.reverberate(slowed, audio_files.read_audio(hall, RATE)))
    assert snr_db(heard, noisy) == pytest.approx(10.0, abs=0.01)


def test_the_codec_is_applied_last(folders):
    cafe = os.path.join(folders["noise_dir"], "cafe.wav")
    noise = (0.9, 1, None, cafe, 3.0, 0.0, 10.0, -6.0)
    speech = small_corpora.tone(1.0)
    received = effects.apply(speech, RATE, Variant(*noise, "telephone", 8000))
    sent = effects.apply(speech, RATE, Variant(*noise))
    np.testing.assert_array_equal(received, codecs.transmit(sent, RATE, "telephone", 8000))
    alone = effects.apply(speech, RATE, Variant(copy=1, codec="mp3", codec_setting=24))
    np.testing.assert_array_equal(alone, codecs.transmit(speech, RATE, "mp3", 24))


def test_the_first_channel_of_an_impulse_response_is_used(folders):
    both = np.zeros([300, 2], np.float32)
    both[50, 0], both[90, 1] = 0.5, 0.9
    path = small_corpora.write_audio(os.path.join(folders["rir_dir"], "two.wav"), both)
    speech = small_augmentation.noise(1000)
    np.testing.assert_allclose(effects.apply(speech, RATE, Variant(room=path)), speech, atol=1e-6)


def test_damaged_impulse_responses_and_noises_are_named(folders):
    path = small_corpora.write_audio(os.path.join(folders["rir_dir"], "mute.wav"), np.zeros(RATE))
    with pytest.raises(errors.UserError, match="mute.wav: the room impulse response is silent; remove the"):
        effects.apply(small_corpora.tone(1.0), RATE, Variant(room=path))
    path = os.path.join(folders["noise_dir"], "nan.wav")
    soundfile.write(path, np.float32([np.nan] * RATE), RATE, subtype="FLOAT")
    with pytest.raises(errors.UserError, match="nan.wav: some samples are NaN or Inf; remove the file from"):
        effects.apply(small_corpora.tone(0.5), RATE, Variant(noise=path, noise_seconds=1.0))
    os.remove(path)
    with pytest.raises(errors.UserError, match="nan.wav"):
        effects.apply(small_corpora.tone(0.5), RATE, Variant(noise=path, noise_seconds=1.0))
