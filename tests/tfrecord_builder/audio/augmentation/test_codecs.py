import hashlib
import io

import numpy as np
import pytest
import small_augmentation
import small_corpora
import soundfile

from tfrecord_builder import errors
from tfrecord_builder.audio.augmentation import codecs

RATE = small_corpora.SAMPLE_RATE
RANGES = {"mp3": (16, 64), "opus": (8, 32), "vorbis": (1, 6), "telephone": (8000,), "lowpass": (3400, 7000)}
SETTINGS = [(codec, setting) for codec, settings in RANGES.items() for setting in settings]


def gain_db(sent, received, low_hz, high_hz, rate=RATE):
    """Returns the energy received between two frequencies, relative to the energy sent there, in dB."""
    spectra = [np.abs(np.fft.rfft(samples * np.hanning(len(sent)))) for samples in (sent, received)]
    band = slice(int(low_hz * len(sent) / rate), int(high_hz * len(sent) / rate))
    before, after = (np.sum(np.square(spectrum[band])) for spectrum in spectra)
    return 10 * np.log10(after / before)


def delay(sent, received):
    """Returns the delay of the received signal in samples: the maximum of the cross-correlation."""
    length = 2 * len(sent)
    spectra = [np.fft.rfft(samples, length) for samples in (sent, received)]
    lag = int(np.argmax(np.fft.irfft(np.conj(spectra[0]) * spectra[1], length)))
    return lag if lag < len(sent) else lag - length


@pytest.mark.parametrize("codec, setting", SETTINGS)
def test_channels_change_neither_timing_nor_length(codec, setting):
    for rate in (8000, 16000, 22050):
        sent = small_augmentation.noise(2 * rate + 17)
        received = codecs.transmit(sent, rate, codec, setting)
        assert received.dtype == np.float32 and received.shape == sent.shape
        assert delay(sent, received) == 0
        assert np.abs(received - sent).max() > 1e-3 or codec == "lowpass"


def test_mp3_would_delay_the_signal_by_1105_samples():
    """At a low constant bit rate, LAME writes no header; the encoder adds 576 samples, the decoder 529."""
    sent = small_augmentation.noise(RATE)
    file = io.BytesIO()
    soundfile.write(file, sent, RATE, format="MP3", compression_level=0.95, bitrate_mode="CONSTANT")
    file.seek(0)
    assert delay(sent, soundfile.read(file, dtype="float32")[0][: len(sent)]) == 1105
    assert delay(sent, codecs.transmit(sent, RATE, "mp3", 16)) == 0


def test_a_telephone_clips_samples_that_its_filter_makes_too_loud():
    """The filter removes overtones of the square wave, which makes its peaks higher."""
    sent = np.sign(small_corpora.tone(0.5, sample_rate=8000)).astype(np.float32)
    received = codecs.transmit(sent, 8000, "telephone", 8000)
    assert 0.95 < np.abs(received).max() <= 1.0
    assert np.mean(np.sign(received) == sent) > 0.995


@pytest.mark.parametrize("codec, setting", SETTINGS)
@pytest.mark.parametrize("num_samples", [0, 1, 2, 399, 1153])
def test_short_and_silent_audio_is_transmitted(codec, setting, num_samples):
    silent = codecs.transmit(np.zeros(num_samples, np.float32), RATE, codec, setting)
    assert silent.shape == (num_samples,) and np.abs(silent).max(initial=0) < 1e-4
    short = codecs.transmit(small_augmentation.noise(num_samples), RATE, codec, setting)
    assert short.shape == (num_samples,) and np.isfinite(short).all()


def test_vorbis_accepts_long_audio():
    """libsndfile would crash if five minutes were written in one call."""
    sent = small_augmentation.noise(300 * RATE)
    assert codecs.transmit(sent, RATE, "vorbis", 1).shape == sent.shape


@pytest.mark.parametrize("codec, setting", SETTINGS)
def test_loud_audio_is_not_clipped(codec, setting):
    sent = small_corpora.tone(1.0, 1000.0, level=5.0)
    received = codecs.transmit(sent, RATE, codec, setting)
    # LAME scales the level to 95 %.
    assert np.sqrt(np.mean(received[4000:-4000] ** 2)) == pytest.approx(5 / np.sqrt(2), rel=0.06)
    assert gain_db(sent, received, 950, 1050) == pytest.approx(0, abs=0.5)


@pytest.mark.parametrize("cutoff_hz", [3400, 5512, 7000])
def test_a_lowpass_removes_frequencies_above_its_cutoff(cutoff_hz):
    sent = small_augmentation.noise(2 * RATE)
    received = codecs.transmit(sent, RATE, "lowpass", cutoff_hz)
    assert gain_db(sent, received, 50, 0.9 * cutoff_hz) == pytest.approx(0, abs=0.1)
    assert gain_db(sent, received, cutoff_hz + 50, RATE / 2) < -90


def test_the_telephone_passes_300_to_3400_hz():
    sent = small_augmentation.noise(4 * RATE)
    received = codecs.transmit(sent, RATE, "telephone", 8000)
    assert gain_db(sent, received, 300, 3400) == pytest.approx(0, abs=0.1)
    assert gain_db(sent, received, 20, 200) < -30  # the rest is quantisation noise
    assert gain_db(sent, received, 3700, 3950) < -30
    assert gain_db(sent, received, 4050, 8000) < -80


def test_the_telephone_uses_the_255_levels_of_mu_law():
    """G.711: in 16 bits, steps grow from 2^3 at the lowest level to 2^10 at full scale; +0 equals -0."""
    levels = {
        (sign * ((2 * step + 33) * 2**segment - 33)) * 4
        for sign in (-1, 1)
        for segment in range(8)
        for step in range(16)
    }
    assert len(levels) == 255 and max(levels) == 32124
    sent = small_corpora.tone(4.0, 437.0, level=0.95, sample_rate=8000)
    received = codecs.transmit(sent, 8000, "telephone", 8000)
    assert set(np.unique(np.round(received * 32768))) <= levels
    assert len(np.unique(received)) > 200


@pytest.mark.parametrize("kbps, edge_hz", [(24, 5800), (64, 7300)])
def test_mp3_at_a_low_bit_rate_loses_high_frequencies(kbps, edge_hz):
    sent = small_augmentation.noise(4 * RATE)
    received = codecs.transmit(sent, RATE, "mp3", kbps)
    assert gain_db(sent, received, 300, 3000) == pytest.approx(0, abs=3)
    assert gain_db(sent, received, edge_hz + 300, 8000) < -40


def test_higher_settings_change_the_signal_less():
    sent = small_augmentation.noise(2 * RATE) * np.hanning(2 * RATE).astype(np.float32)
    for name, channel in codecs.CHANNELS.items():
        if channel.lowest < channel.highest:
            errors_of = [
                np.square(codecs.transmit(sent, RATE, name, setting) - sent).mean()
                for setting in (channel.lowest, channel.highest)
            ]
            assert errors_of[1] < errors_of[0], name


def test_settings_are_sampled_uniformly_over_octaves():
    mp3, telephone = codecs.CHANNELS["mp3"], codecs.CHANNELS["telephone"]
    assert [mp3.sample(uniform) for uniform in (0.0, 0.25, 0.5, 0.75, 0.99999)] == [16, 23, 32, 45, 64]
    assert telephone.sample(0.0) == telephone.sample(0.9) == 8000


PROGRAM = """
import hashlib
import numpy as np
from tfrecord_builder.audio.augmentation import codecs
sent = (np.random.RandomState(0).standard_normal(20000) / 10).astype(np.float32)
for name, channel in codecs.CHANNELS.items():
    print(name, hashlib.sha256(codecs.transmit(sent, 16000, name, channel.lowest).tobytes()).hexdigest())
"""


def test_samples_do_not_depend_on_the_process_or_on_earlier_calls(run_twice):
    expected = dict(line.split() for line in run_twice(PROGRAM).splitlines())
    sent = small_augmentation.noise(20000)
    for name, channel in reversed(list(codecs.CHANNELS.items())):
        received = codecs.transmit(sent, RATE, name, channel.lowest)
        assert hashlib.sha256(received.tobytes()).hexdigest() == expected[name], name


def test_a_missing_encoder_is_reported_before_work_starts(monkeypatch):
    codecs.require(codecs.CHANNELS)
    monkeypatch.setattr(soundfile, "__libsndfile_version__", "1.0.31")
    monkeypatch.setattr(soundfile, "available_formats", lambda: {"WAV": "WAV", "OGG": "OGG"})
    monkeypatch.setattr(
        soundfile, "available_subtypes", lambda name: {"VORBIS": "Vorbis"} if name == "OGG" else {}
    )
    codecs.require(("vorbis", "telephone", "lowpass"))
    for name in ("mp3", "opus"):
        with pytest.raises(errors.UserError) as caught:
            codecs.require(("telephone", name))
        assert str(caught.value) == (
            f"--codecs={name}: libsndfile 1.0.31 cannot encode {name}, which needs 1.1 or later; install "
            f"the soundfile wheel, which contains a later libsndfile, or leave {name} out."
        )
