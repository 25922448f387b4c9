"""The three audio signatures of an export return the same transcripts, and the status of each item."""

import functools

import numpy as np
import pytest
import small_corpora
import soxr
import tensorflow as tf
import tiny_models
import wav_files

from estimator_asr.exporting.saved_model import export_info, recogniser, signatures
from tfrecord_builder.building import shard_writer, sharding
from tfrecord_builder.data import manifest
from tfrecord_builder.labels import labelling


@functools.cache
def load(version_dir, name, *hotwords):
    """Returns a recogniser; tests share it, because loading takes seconds."""
    return recogniser.load(version_dir, name, hotwords)


@pytest.fixture(scope="module")
def waveforms(tiny_export):
    return [waveform for *_, waveform in tiny_export.utterances.values()]


def make_batches(waveforms):
    """Returns the inputs of each signature."""
    fbanks = [tiny_models.extract(waveform) for waveform in waveforms]
    return {
        "serving_default": {"wav_bytes": [wav_files.encode(waveform) for waveform in waveforms]},
        "waveform": {
            "waveform": tf.keras.utils.pad_sequences(waveforms, padding="post", dtype="float32"),
            "num_samples": [len(waveform) for waveform in waveforms],
        },
        "features": {
            "fbank": tf.keras.utils.pad_sequences(fbanks, padding="post", dtype="float32"),
            "num_frames": [len(fbank) for fbank in fbanks],
        },
    }


@pytest.mark.long
def test_all_signatures_give_the_same_text(tiny_export, waveforms):
    batches = make_batches(waveforms)
    results = [load(tiny_export.version_dir, name).run(batch) for name, batch in batches.items()]
    assert len(set(results[0]["pinyin"])) > 3
    for result in results[1:]:
        assert result["pinyin"] == results[0]["pinyin"]
        assert result["transcript"] == results[0]["transcript"]
        scores = [each["acoustic_score"] for each in (result, results[0])]
        np.testing.assert_allclose(*scores, rtol=1e-4, atol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("name", ["serving_default", "waveform", "features"])
def test_hotwords_are_recognised_and_written_with_their_characters(tiny_export, waveforms, name):
    """The language model does not know 泥; the boost exceeds any log probability."""
    batch = make_batches(waveforms[3:])[name]
    plain = load(tiny_export.version_dir, name).run(batch)
    result = load(tiny_export.version_dir, name, "泥郝 ni3 hao3 1000").run(batch)
    for transcript, spoken, before in zip(result["transcript"], result["pinyin"], plain["transcript"]):
        assert "泥郝" in transcript
        assert transcript.count("泥郝") == spoken.count("ni3 hao3")
        assert "泥" not in before
    for characters, transcript in zip(result["characters"], result["transcript"]):
        assert "".join(each["character"] for each in characters) == transcript
    for best in result["n_best"]:
        assert best[0]["score"] > 900 * best[0]["transcript"].count("泥郝")


@pytest.mark.long
def test_hotwords_without_a_match_change_nothing(tiny_export, waveforms):
    batch = make_batches(waveforms)["waveform"]
    plain = load(tiny_export.version_dir, "waveform").run(batch)
    unknown = load(tiny_export.version_dir, "waveform", "犇 9", "你天气 9").run(batch)
    assert unknown["transcript"] == plain["transcript"]
    np.testing.assert_allclose(unknown["acoustic_score"], plain["acoustic_score"], rtol=1e-5)
    empty = load(tiny_export.version_dir, "waveform", "").run(batch)
    assert empty["n_best"] == unknown["n_best"]


def test_features_in_an_export_equal_those_of_the_builder(tiny_export, tmp_path):
    """The SavedModel computes the same features from a WAV file as the builder writes into a record."""
    model = load(tiny_export.version_dir, "serving_default")
    fbank = model.session.graph.get_tensor_by_name("fbank:0")
    speech = tiny_models.make_waveform(50000, seed=3)
    path = tmp_path / "a.wav"
    path.write_bytes(wav_files.encode(speech))
    built = _build_record(str(path))
    (served,) = model.session.run(fbank, {model.inputs["wav_bytes"]: [path.read_bytes()]})
    assert built.shape == served.shape == (311, tiny_models.FRONTEND.num_bins)
    assert built.dtype == served.dtype == np.float32
    np.testing.assert_array_equal(built, served)


def _build_record(audio):
    """Returns the features that the builder computes for a recording."""
    found = labelling.Labels("你", ("ni3",), ("你",))
    vocabularies = small_corpora.make_vocabularies(found)
    settings = sharding.RecordSettings(vocabularies, tiny_models.FRONTEND, "float32", 30.0)
    utterance = manifest.Utterance("u1", audio, "", "", "", "train")
    labelled = sharding.LabelledUtterance(utterance, found, sharding.file_signature(audio))
    return shard_writer.make_record(labelled, settings)[0].fbank


@pytest.mark.long
@pytest.mark.parametrize("padding", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["waveform", "features"])
def test_padding_of_nan_and_of_zeros_has_equal_outputs(tiny_export, waveforms, name, padding):
    """One utterance has length 0, so it consists of padding alone."""
    rows = waveforms if name == "waveform" else [tiny_models.extract(waveform) for waveform in waveforms]
    values, length = signatures.SIGNATURE_INPUTS[name]
    model = load(tiny_export.version_dir, name)
    rows, lengths = [*rows, rows[0][:0]], [*map(len, rows), 0]
    pad = functools.partial(tf.keras.utils.pad_sequences, rows, padding="post", dtype="float32")
    wanted, got = (model.run({values: pad(value=value), length: lengths}) for value in (0.0, padding))
    assert len(set(wanted["pinyin"])) > 3 and wanted["pinyin"][-1] == ""
    assert got == wanted  # scores too, to the bit


def test_a_wav_has_the_same_outputs_alone_and_in_a_batch(tiny_export, waveforms):
    model = load(tiny_export.version_dir, "serving_default")
    wavs = [wav_files.encode(waveform) for waveform in waveforms]
    together = model.run({"wav_bytes": wavs})
    for index, wav in enumerate(wavs):
        alone = model.run({"wav_bytes": [wav]})
        for name in ("pinyin", "transcript"):
            assert alone[name] == [together[name][index]]


@pytest.mark.parametrize("num_samples", [0, 1, tiny_models.FRONTEND.window_samples - 1])
def test_audio_shorter_than_a_frame_gives_empty_text(tiny_export, waveforms, num_samples):
    model = load(tiny_export.version_dir, "serving_default")
    short, long = wav_files.encode(waveforms[0][:num_samples]), wav_files.encode(waveforms[1])
    assert model.run({"wav_bytes": [short]})["transcript"] == [""]
    result = model.run({"wav_bytes": [short, long]})
    assert (result["transcript"][0], result["pinyin"][0], result["acoustic_score"][0]) == ("", "", 0.0)
    assert result["pinyin"][1] == model.run({"wav_bytes": [long]})["pinyin"][0] != ""


def test_silence_has_an_empty_transcript_by_both_signatures(tiny_export, waveforms):
    """Only samples before num_samples count; those at or beyond it may be loud."""
    loud = waveforms[2]
    silence = np.float32(0.0004) * np.sign(loud)
    expected = load(tiny_export.version_dir, "waveform")
    rows = np.stack([np.concatenate([row, rest]) for row, rest in ((silence, loud), (loud, silence))])
    found = expected.run({"waveform": rows, "num_samples": [len(loud)] * 2})
    assert (found["transcript"][0], found["pinyin"][0], found["acoustic_score"][0]) == ("", "", 0.0)
    assert found["pinyin"][1] != "" and np.isfinite(found["language_score"]).all()
    served = load(tiny_export.version_dir, "serving_default")
    wavs = [wav_files.encode(row) for row in (silence, loud, np.float32(0.001) * np.sign(loud))]
    result = served.run({"wav_bytes": wavs})
    assert result["pinyin"][:2] == found["pinyin"]
    assert result["pinyin"][2] != ""  # soft, but no silence


def make_bad_items(like):
    """Returns statuses, and waveforms as long as `like` that get them."""
    loud = tiny_models.make_waveform(len(like), seed=5)
    nan, huge = (np.where(np.arange(len(like)) == 3000, value, loud) for value in (np.nan, 2e12))
    return [("silent", loud * np.float32(0.0005)), ("not_finite", nan), ("not_finite", huge)]


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [2, 3, 6])
@pytest.mark.parametrize("name", ["serving_default", "waveform"])
def test_a_rejected_item_does_not_affect_other_items(tiny_export, waveforms, name, batch_size):
    """Other items have exactly the outputs that they have with a valid item in its place."""
    model = load(tiny_export.version_dir, name)
    good = waveforms[:batch_size]

    def run(item):
        rows = [good[0], item, *good[2:]]
        if name == "waveform":
            return model.run(make_batches(rows)[name])
        return model.run({"wav_bytes": [wav_files.encode(row, subtype="FLOAT") for row in rows]})

    expected = run(good[1])
    assert expected["status"] == ["ok"] * batch_size
    for status, item in make_bad_items(good[1]):
        found = run(item)
        assert found["status"] == ["ok", status, *["ok"] * (batch_size - 2)]
        assert_cleared(found, 1)
        for output, values in expected.items():
            assert found[output][:1] + found[output][2:] == values[:1] + values[2:]


def assert_cleared(found, index):
    got = {output: values[index] for output, values in found.items() if output != "status"}
    assert got == {
        **{"transcript": "", "pinyin": "", "greedy_pinyin": ""},
        **{"characters": [], "n_best": [{"transcript": "", "score": 0.0}]},
        **{"acoustic_score": 0.0, "language_score": 0.0, "confidence": 0.0},
    }


def test_invalid_files_do_not_affect_other_items(tiny_export, waveforms):
    model = load(tiny_export.version_dir, "serving_default")
    good = [wav_files.encode(waveform) for waveform in waveforms[2:4]]
    long = wav_files.encode(np.ones(1000 * 181, np.float32), 1000)
    bad = {b"": "malformed", b"hello": "malformed", good[0][:30]: "malformed", long: "too_long"}
    expected = model.run({"wav_bytes": [good[0], good[1], *[good[1]] * 4]})
    found = model.run({"wav_bytes": [*good, *bad]})
    assert found["status"] == ["ok", "ok", *bad.values()]
    for index in range(2, 6):
        assert_cleared(found, index)
    for output, values in expected.items():
        assert found[output][:2] == values[:2]


def test_an_unfinished_recording_has_a_transcript_and_a_status(tiny_export, waveforms):
    whole, silent = wav_files.encode(waveforms[0]), wav_files.encode(np.zeros(16000))
    files = [whole, *(each[:40] + bytes(4) + each[44:] for each in (whole, silent, whole[:100]))]
    result = load(tiny_export.version_dir, "serving_default").run({"wav_bytes": files})
    assert result["status"] == ["ok", "unfinished", "silent", "empty"]
    assert result["transcript"][1] == result["transcript"][0] != ""
    np.testing.assert_allclose(result["confidence"][1], result["confidence"][0], rtol=1e-4)


@pytest.mark.parametrize("value", [np.nan, 1e38, 3e37, 9e13])
def test_large_features_and_nan_do_not_affect_other_items(tiny_export, waveforms, value):
    """No operation fails: below the limit, the status is ok; above the limit, the item is rejected."""
    model = load(tiny_export.version_dir, "features")
    batch = make_batches(waveforms[:3])["features"]
    expected = model.run(batch)
    if np.isnan(value):
        batch["fbank"][1, 2, 3] = value
    else:
        batch["fbank"][1] = value * np.random.default_rng(0).uniform(-1, 1, batch["fbank"][1].shape)
    found = model.run(batch)
    assert found["status"] == ["ok", "ok" if value < 1e14 else "not_finite", "ok"]
    if not value < 1e14:
        assert_cleared(found, 1)
    for output, values in expected.items():
        assert found[output][::2] == values[::2]


def test_wavs_of_other_rates_and_kinds_have_the_same_text(tiny_export, waveforms):
    model = load(tiny_export.version_dir, "serving_default")
    waveform = waveforms[4]
    high = soxr.resample(waveform, 16000, 48000)
    files = [
        wav_files.encode(waveform),
        wav_files.encode(np.stack([waveform, waveform], axis=1), subtype="PCM_24", container="WAVEX"),
        wav_files.encode(high, 48000, "FLOAT"),
    ]
    found = model.run({"wav_bytes": files})
    assert found["status"] == ["ok"] * 3
    assert len(set(found["pinyin"])) == 1 and found["pinyin"][0] != ""
    np.testing.assert_allclose(found["acoustic_score"], found["acoustic_score"][:1] * 3, rtol=5e-3)


@pytest.mark.long
@pytest.mark.parametrize("name", ["serving_default", "waveform", "features"])
@pytest.mark.parametrize("hotwords", [[], ["你好"]])
def test_an_empty_batch_has_empty_outputs(tiny_export, name, hotwords):
    model = load(tiny_export.version_dir, name, *hotwords)
    empty = {
        "wav_bytes": np.zeros([0], object),
        "waveform": np.zeros([0, 0], np.float32),
        "fbank": np.zeros([0, 0, tiny_models.FRONTEND.num_bins], np.float32),
    }
    lengths = dict.fromkeys(("num_samples", "num_frames"), np.zeros([0], np.int32))
    given = {**empty, **lengths, **model.constants}
    feeds = {tensor: given[each] for each, tensor in model.inputs.items()}
    found = model.session.run(dict(model.outputs), feeds)
    assert {len(value) for value in found.values()} == {0}
    strings = {"transcript", "pinyin", "greedy_pinyin", "status"}
    strings |= {"characters.character", "characters.pinyin", "n_best.transcript"}
    for output, value in found.items():
        assert value.dtype == (object if output in strings else np.float32)
    assert set(model.run(given)["transcript"]) == set()


def test_lengths_that_do_not_fit_the_batch_are_refused(tiny_export, waveforms):
    model = load(tiny_export.version_dir, "waveform")
    message = "num_samples is .*, expected.*send the true lengths"
    for num_samples in (-1, len(waveforms[0]) + 1):
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            model.run({"waveform": waveforms[0][None], "num_samples": [num_samples]})


def test_the_maximum_length_is_written_into_the_export(tiny_export, waveforms):
    assert export_info.load(tiny_export.version_dir).max_seconds == 180
    model = load(tiny_export.version_dir, "features")
    fbank = np.ones([2, 18000, tiny_models.FRONTEND.num_bins], np.float32)
    found = model.run({"fbank": fbank, "num_frames": [18000, 30]})
    assert found["status"] == ["too_long", "ok"]
