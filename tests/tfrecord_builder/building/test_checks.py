import numpy as np
import pytest
import small_corpora
import telephone_files

from tfrecord_builder.building import checks
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import labelling

RATE = small_corpora.SAMPLE_RATE


def _noise(seconds=2.0):
    """Compresses badly, so that half of the file is about half of the recording."""
    return np.random.RandomState(0).uniform(-0.3, 0.3, int(seconds * RATE)).astype(np.float32)


def _read(path, max_seconds=30.0):
    utterance = manifest.Utterance("u", str(path), "s", "", "", "train")
    return checks.read_waveform(utterance, RATE, max_seconds)


def _reason(path, max_seconds=30.0):
    with pytest.raises(checks.Rejected) as rejected:
        _read(path, max_seconds)
    return str(rejected.value)


@pytest.mark.parametrize(
    ("name", "rate", "options"),
    [
        ("a.wav", 16000, {}),
        ("a.wav", 48000, {"subtype": "PCM_24"}),
        ("a.wav", 8000, {"subtype": "PCM_U8"}),
        ("a.wav", 16000, {"subtype": "FLOAT"}),
        ("a.flac", 44100, {}),
        ("a.ogg", 16000, {}),
        ("a.mp3", 22050, {}),
    ],
)
def test_accepts_every_format(tmp_path, name, rate, options):
    samples = small_corpora.tone(0.5, sample_rate=rate)
    path = small_corpora.write_audio(tmp_path / name, np.stack([samples, samples], axis=1), rate, **options)
    assert abs(len(_read(path)) - 8000) < 1200  # MP3 pads to whole frames


@pytest.mark.parametrize("kind", telephone_files.KINDS)
def test_accepts_recordings_of_telephones(tmp_path, kind):
    (tmp_path / "a").write_bytes(telephone_files.encode(kind))
    assert abs(len(_read(tmp_path / "a")) - 2 * RATE) < 0.15 * RATE
    assert "longer than" in _reason(tmp_path / "a", max_seconds=1.0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.wav", {}),
        ("a.wav", {"format": "WAVEX"}),
        ("a.flac", {}),
        ("a.ogg", {}),
        ("a.mp3", {}),
    ],
)
def test_truncated(tmp_path, name, options):
    path = tmp_path / name
    small_corpora.write_audio(path, _noise(), **options)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert _reason(path) == "truncated audio"


@pytest.mark.parametrize("place", [0.25, 0.5, 0.75])
def test_a_damaged_flac_is_not_truncated(tmp_path, place):
    path = tmp_path / "has 0 samples.flac"  # words of a message; the name decides nothing
    small_corpora.write_audio(path, _noise())
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 0x55
    path.write_bytes(content)
    assert _reason(path) == "unreadable audio"


def test_the_words_of_a_message_in_a_path_decide_nothing(tmp_path):
    path = tmp_path / "has 0 samples.wav"
    small_corpora.write_audio(path, _noise())
    path.write_bytes(path.read_bytes()[:10000])
    assert _reason(path) == "truncated audio"


def test_wav_from_a_pipe_promises_too_much_and_is_fine(tmp_path):
    path = tmp_path / "a.wav"
    small_corpora.write_audio(path, _noise(1.0))
    content = bytearray(path.read_bytes())
    content[4:8] = content[40:44] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    assert len(_read(path)) == RATE


def test_missing_unreadable_and_empty(tmp_path):
    assert _reason(tmp_path / "none.wav") == "no such audio file"
    assert (
        _reason(small_corpora.write_text(tmp_path / "text.wav", "this is no sound\n")) == "unreadable audio"
    )
    assert _reason(small_corpora.write_text(tmp_path / "zero.wav", "")) == "empty audio"
    assert (
        _reason(small_corpora.write_audio(tmp_path / "header.wav", np.zeros(0, np.float32))) == "empty audio"
    )


def test_silent(tmp_path):
    quiet = small_corpora.tone(0.5, level=0.0004)
    assert _reason(small_corpora.write_audio(tmp_path / "zeros.wav", np.zeros(8000))) == "silent audio"
    assert _reason(small_corpora.write_audio(tmp_path / "quiet.wav", quiet)) == "silent audio"
    assert len(_read(small_corpora.write_audio(tmp_path / "heard.wav", 2 * quiet))) == 8000


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite(tmp_path, value):
    samples = small_corpora.tone(0.5)
    samples[100] = value
    path = small_corpora.write_audio(tmp_path / "a.wav", samples, subtype="FLOAT")
    assert _reason(path) == "NaN or Inf samples"


def test_too_long(tmp_path):
    path = small_corpora.write_audio(tmp_path / "a.wav", small_corpora.tone(1.0))
    assert len(_read(path, max_seconds=1.0)) == RATE
    assert _reason(path, max_seconds=0.99) == "longer than --max_seconds"


@pytest.mark.parametrize(
    ("audio", "labels", "unknown", "problem", "reason"),
    [
        ("a.wav", ("花儿", ("huar1",), ()), [], "", None),
        (None, ("花儿", ("huar1",), ()), [], "", "hanzi and pinyin do not pair"),
        (None, ("", (), ()), [], "", "no transcript"),
        (None, ("好", ("hao9",), ("好",)), ["hao9", "x"], "", "pinyin has an unknown syllable: hao9"),
        ("a.wav", ("好", ("hao3",), ()), [], "segment is empty", "segment is empty"),
    ],
)
def test_labels(audio, labels, unknown, problem, reason):
    utterance = manifest.Utterance("u", audio, "", "", "", "train", problem=problem)
    if reason is None:
        checks.check_labels(utterance, labelling.Labels(*labels), unknown)
    else:
        with pytest.raises(checks.Rejected, match=f"^{reason}$"):
            checks.check_labels(utterance, labelling.Labels(*labels), unknown)
