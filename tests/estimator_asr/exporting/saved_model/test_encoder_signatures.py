"""Rejected items, short audio and empty batches in an export with a frozen encoder."""

import numpy as np
import pytest
import tiny_models
import wav_files

from estimator_asr.exporting.saved_model import recogniser, saved_model_writer, trained_model

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=["whisper", "hubert"])
def family(request):
    return request.param


@pytest.fixture(scope="module")
def loaded(tmp_path_factory, family):
    path = tmp_path_factory.mktemp(family)
    tiny_models.make_pretrained_model(str(path / "am"), family)
    acoustic = trained_model.open_trained_model(str(path / "am"))
    version = recogniser.load_version(saved_model_writer.write(acoustic, None, str(path / "export")))
    yield version
    version.session.close()


@pytest.mark.parametrize("wavs", [[b"junk"], [], [b"junk", b""]])
def test_a_batch_without_a_valid_file(loaded, wavs):
    found = loaded.find("serving_default").run({"wav_bytes": np.array(wavs, object)})
    assert found["status"] == ["malformed"] * len(wavs)
    assert found["pinyin"] == [""] * len(wavs)


@pytest.mark.parametrize("shape", [(0, 16000), (0, 0), (2, 0), (1, 50), (3, 159)])
def test_waveforms_without_a_frame(loaded, shape):
    batch = {"waveform": np.full(shape, 0.1, np.float32), "num_samples": np.full(shape[:1], shape[1])}
    found = loaded.find("waveform").run(batch)
    assert found["status"] == ["empty"] * shape[0]
    assert found["pinyin"] == [""] * shape[0]


@pytest.mark.parametrize("shape", [(0, 20), (0, 0), (2, 0)])
def test_features_without_a_frame(loaded, shape):
    num_frames, num_bins = np.full(shape[:1], shape[1]), 2 * 80 + 2 * 16
    batch = {"fbank": np.ones([*shape, num_bins], np.float32), "num_frames": num_frames}
    assert loaded.find("features").run(batch)["status"] == ["empty"] * shape[0]


def test_large_features_do_not_affect_other_items(loaded):
    fbank = np.random.default_rng(0).uniform(-1, 1, [2, 40, 2 * 80 + 2 * 16]).astype(np.float32)
    batch = {"fbank": fbank, "num_frames": np.array([40, 40])}
    expected = loaded.find("features").run(batch)
    fbank[1] *= np.float32(3e38)
    found = loaded.find("features").run(batch)
    assert found["status"] == ["ok", "not_finite"]
    assert found["pinyin"] == [expected["pinyin"][0], ""]


def test_padding_of_a_batch_does_not_change_an_item(loaded):
    """HuBERT's group norm could violate this; its statistics are computed per item, without padding."""
    model = loaded.find("waveform")
    waveforms = [tiny_models.make_waveform(count, seed=count) for count in (9000, 16000, 23000)]
    batch = np.zeros([3, 30000], np.float32)
    for row, waveform in zip(batch, waveforms):
        row[: len(waveform)] = waveform
    together = model.run({"waveform": batch, "num_samples": np.array([9000, 16000, 23000])})
    for number, waveform in enumerate(waveforms):
        alone = model.run({"waveform": waveform[None], "num_samples": np.array([len(waveform)])})
        assert alone["pinyin"] == [together["pinyin"][number]] != [""]
        assert alone["acoustic_score"][0] == pytest.approx(together["acoustic_score"][number], rel=1e-3)


def test_the_shortest_item(loaded, family):
    least = {"whisper": 160, "hubert": 480}[family]
    waveform = np.tile(tiny_models.make_waveform(least, seed=1), [2, 1])
    batch = {"waveform": waveform, "num_samples": np.array([least - 1, least])}
    assert loaded.find("waveform").run(batch)["status"] == ["empty", "ok"]


def test_a_rejected_item_does_not_affect_other_items(loaded):
    model = loaded.find("serving_default")
    speech = wav_files.encode(tiny_models.make_waveform(16000, seed=1))
    short = wav_files.encode(tiny_models.make_waveform(50, seed=1))
    expected = model.run({"wav_bytes": [speech] * 3})
    found = model.run({"wav_bytes": [short, speech, b"junk"]})
    assert found["status"] == ["empty", "ok", "malformed"]
    assert found["pinyin"] == ["", expected["pinyin"][1], ""] and expected["pinyin"][1]
    assert found["acoustic_score"][1] == expected["acoustic_score"][1]


def test_audio_longer_than_the_training_audio_of_the_encoder_is_too_long(loaded, family):
    assert loaded.info.max_seconds == 30
    longest = {"whisper": 1500, "hubert": 1499}[family]
    waveform = np.tile(tiny_models.make_waveform(30 * 16000 + 1, seed=1), [2, 1])
    given = {"waveform": waveform, "num_samples": np.array([30 * 16000, 30 * 16000 + 1])}
    assert loaded.find("waveform").run(given)["status"] == ["ok", "too_long"]
    fbank = np.ones([2, longest + 1, 2 * 80 + 2 * 16], np.float32)
    found = loaded.find("features").run({"fbank": fbank, "num_frames": np.array([longest, longest + 1])})
    assert found["status"] == ["ok", "too_long"]
    files = [wav_files.encode(row[:end]) for row, end in zip(waveform, given["num_samples"])]
    assert loaded.find("serving_default").run({"wav_bytes": files})["status"] == ["ok", "too_long"]
