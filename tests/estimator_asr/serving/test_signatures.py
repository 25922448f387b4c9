"""The signatures of an export: WAV decoding, and that all three give the same transcript."""

from __future__ import annotations

import io

import numpy as np
import pytest
import small_corpora
import soundfile
import tensorflow as tf
import tiny_models

from estimator_asr.serving import recogniser, signatures
from tfrecord_builder import manifest
from tfrecord_builder.building import shard_writer, sharding
from tfrecord_builder.labels import labelling
from tfrecord_builder.records import items

RATE = tiny_models.FRONTEND.sample_rate


def make_wav(waveform, rate=RATE, subtype="PCM_16"):
    file = io.BytesIO()
    soundfile.write(file, waveform, rate, format="WAV", subtype=subtype)
    return file.getvalue()


@pytest.fixture(scope="module")
def decode():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        wav_bytes = tf.compat.v1.placeholder(tf.string, [None])
        yield session.make_callable(signatures.decode_wavs(wav_bytes, RATE), [wav_bytes])


@pytest.fixture(scope="module")
def waveforms(tiny_export):
    return [waveform for *_, waveform in tiny_export.utterances.values()]


def test_wavs_of_different_lengths_are_padded_with_zeros(decode):
    long, short = np.float32([0.5, -0.25, 0.125, -1.0]), np.float32([0.25, 0.5])
    waveform, num_samples = decode([make_wav(long), make_wav(short)])
    assert waveform.tolist() == [long.tolist(), [0.25, 0.5, 0.0, 0.0]]
    assert num_samples.tolist() == [4, 2]


def test_channels_are_averaged(decode):
    waveform, num_samples = decode([make_wav(np.float32([[0.5, 0.25], [-0.5, 0.0]]))])
    assert waveform.tolist() == [[0.375, -0.25]]
    assert num_samples.tolist() == [2]


def test_wav_without_samples(decode):
    waveform, num_samples = decode([make_wav(np.zeros([0], np.float32))])
    assert waveform.shape == (1, 0)
    assert num_samples.tolist() == [0]


def test_wrong_sample_rate_is_refused_with_both_rates(decode):
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"wav_bytes: sample rate is\] \[8000\] \[Hz, expected 16000 Hz; resample the audio",
    ):
        decode([make_wav(np.zeros(100), rate=8000)])


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "Data too short"),
        (b"hello, this is not a WAV file at all", "Header mismatch: Expected RIFF"),
        (make_wav(np.zeros(100), subtype="PCM_U8"), "Can only read 16-bit WAV files, but received 8"),
        (make_wav(np.zeros(100))[:60], "Data too short"),
    ],
)
def test_what_is_no_16_bit_wav_is_refused(decode, contents, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        decode([contents])


def make_batches(waveforms):
    """Returns the inputs of each signature."""
    fbanks = [tiny_models.extract(waveform) for waveform in waveforms]
    return {
        "serving_default": {"wav_bytes": [make_wav(waveform) for waveform in waveforms]},
        "waveform": {
            "waveform": tf.keras.utils.pad_sequences(waveforms, padding="post", dtype="float32"),
            "num_samples": [len(waveform) for waveform in waveforms],
        },
        "features": {
            "fbank": tf.keras.utils.pad_sequences(fbanks, padding="post", dtype="float32"),
            "num_frames": [len(fbank) for fbank in fbanks],
        },
    }


def test_three_doors_lead_to_the_same_text(tiny_export, waveforms):
    batches = make_batches(waveforms)
    results = [recogniser.load(tiny_export.version_dir, name).run(batch) for name, batch in batches.items()]
    assert len(set(results[0]["pinyin"])) > 3
    for result in results[1:]:
        assert result["pinyin"] == results[0]["pinyin"]
        assert result["transcript"] == results[0]["transcript"]
        np.testing.assert_allclose(
            result["acoustic_score"], results[0]["acoustic_score"], rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("name", ["serving_default", "waveform", "features"])
def test_hotwords_win_and_are_written_with_their_characters(tiny_export, waveforms, name):
    """The language model knows no 泥; the boost is larger than any log probability."""
    batch = make_batches(waveforms[3:])[name]
    plain = recogniser.load(tiny_export.version_dir, name).run(batch)
    result = recogniser.load(tiny_export.version_dir, name, ["泥郝 ni3 hao3 1000"]).run(batch)
    for transcript, spoken, before in zip(result["transcript"], result["pinyin"], plain["transcript"]):
        assert "泥郝" in transcript
        assert transcript.count("泥郝") == spoken.count("ni3 hao3")
        assert "泥" not in before
    for characters, transcript in zip(result["characters"], result["transcript"]):
        assert "".join(each["character"] for each in characters) == transcript
    for best in result["n_best"]:
        assert best[0]["score"] > 900 * best[0]["transcript"].count("泥郝")


def test_hotwords_without_a_match_change_nothing(tiny_export, waveforms):
    batch = make_batches(waveforms)["waveform"]
    plain = recogniser.load(tiny_export.version_dir, "waveform").run(batch)
    unknown = recogniser.load(tiny_export.version_dir, "waveform", ["犇 9", "你天气 9"]).run(batch)
    assert unknown["transcript"] == plain["transcript"]
    np.testing.assert_allclose(unknown["acoustic_score"], plain["acoustic_score"], rtol=1e-5)
    empty = recogniser.load(tiny_export.version_dir, "waveform", [""]).run(batch)
    assert empty["n_best"] == unknown["n_best"]


def test_export_holds_the_builders_extractor_to_the_bit(tiny_export, tmp_path):
    """What the SavedModel makes of a WAV is what the builder wrote into the record of that WAV."""
    model = recogniser.load(tiny_export.version_dir, "serving_default")
    fbank = model.session.graph.get_tensor_by_name("fbank:0")
    speech = tiny_models.make_waveform(50000, seed=3)
    path = tmp_path / "a.wav"
    path.write_bytes(make_wav(speech))
    built = _build_record(str(path))
    (served,) = model.session.run(fbank, {model.inputs["wav_bytes"]: [path.read_bytes()]})
    assert built.shape == served.shape == (311, tiny_models.FRONTEND.num_bins)
    assert built.dtype == served.dtype == np.float32
    np.testing.assert_array_equal(built, served)


def _build_record(audio):
    """Returns the features that the builder computes for a recording."""
    found = labelling.Labels("你", ("ni3",), ("你",))
    settings = sharding.Settings(
        small_corpora.make_vocabularies(found), tiny_models.FRONTEND, "float32", 30.0
    )
    utterance = manifest.Utterance("u1", audio, "", "", "", "train")
    record, _ = shard_writer.make_record(items.Item(utterance, found, items.file_signature(audio)), settings)
    return record.fbank


@pytest.mark.parametrize("padding", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["waveform", "features"])
def test_nan_at_padding_has_the_outputs_of_zeros(tiny_export, waveforms, name, padding):
    """Lengths are given, so that one utterance is only padding."""
    rows = waveforms if name == "waveform" else [tiny_models.extract(waveform) for waveform in waveforms]
    values, length = signatures.SIGNATURE_INPUTS[name]
    model = recogniser.load(tiny_export.version_dir, name)
    batches = [
        {
            values: tf.keras.utils.pad_sequences(
                [*rows, rows[0][:0]], padding="post", dtype="float32", value=value
            ),
            length: [*map(len, rows), 0],
        }
        for value in (0.0, padding)
    ]
    wanted, got = map(model.run, batches)
    assert len(set(wanted["pinyin"])) > 3 and wanted["pinyin"][-1] == ""
    assert got == wanted  # scores too, to the bit


def test_wavs_alone_give_what_they_give_in_a_batch(tiny_export, waveforms):
    model = recogniser.load(tiny_export.version_dir, "serving_default")
    wavs = [make_wav(waveform) for waveform in waveforms]
    together = model.run({"wav_bytes": wavs})
    for index, wav in enumerate(wavs):
        alone = model.run({"wav_bytes": [wav]})
        assert (alone["pinyin"], alone["transcript"]) == (
            [together["pinyin"][index]],
            [together["transcript"][index]],
        )


@pytest.mark.parametrize("num_samples", [0, 1, tiny_models.FRONTEND.window_samples - 1])
def test_audio_shorter_than_a_frame_gives_empty_text(tiny_export, waveforms, num_samples):
    model = recogniser.load(tiny_export.version_dir, "serving_default")
    short, long = make_wav(waveforms[0][:num_samples]), make_wav(waveforms[1])
    assert model.run({"wav_bytes": [short]})["transcript"] == [""]
    result = model.run({"wav_bytes": [short, long]})
    assert (result["transcript"][0], result["pinyin"][0], result["acoustic_score"][0]) == ("", "", 0.0)
    assert result["pinyin"][1] == model.run({"wav_bytes": [long]})["pinyin"][0] != ""


def test_silence_has_an_empty_transcript_by_both_signatures(tiny_export, waveforms):
    """Samples at or beyond num_samples may be loud; those before it count."""
    loud = waveforms[2]
    silence = np.float32(0.0004) * np.sign(loud)
    expected = recogniser.load(tiny_export.version_dir, "waveform")
    rows = np.stack([np.concatenate([row, rest]) for row, rest in ((silence, loud), (loud, silence))])
    found = expected.run({"waveform": rows, "num_samples": [len(loud)] * 2})
    assert (found["transcript"][0], found["pinyin"][0], found["acoustic_score"][0]) == ("", "", 0.0)
    assert found["pinyin"][1] != "" and np.isfinite(found["language_score"]).all()
    served = recogniser.load(tiny_export.version_dir, "serving_default")
    wavs = [make_wav(row) for row in (silence, loud, np.float32(0.001) * np.sign(loud))]
    result = served.run({"wav_bytes": wavs})
    assert result["pinyin"][:2] == found["pinyin"]
    assert result["pinyin"][2] != ""  # soft, but no silence
