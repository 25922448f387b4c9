"""The parity certificate: a correct export passes; an export with different outputs is refused."""

import contextlib
import copy
import os

import numpy as np
import pytest
import tiny_models

from estimator_asr.exporting import parity, sample
from estimator_asr.exporting.saved_model import recogniser, trained_model
from tfrecord_builder import errors

CHARACTERS = [{"character": c, "start": 0.1, "end": 0.2, "confidence": 0.9} for c in "你好"]
EXPECTED = {
    "transcript": "你好",
    "pinyin": "ni3 hao3",
    "acoustic_score": -2.0,
    "language_score": -0.5,
    "n_best": [{"transcript": "你好", "score": -2.5}, {"transcript": "你号", "score": -4.0}],
    "confidence": 0.9,
    "characters": CHARACTERS,
}
FOUND = {**EXPECTED, "status": "ok"}


@pytest.fixture
def certificate():
    return parity.Certificate(1, 1)


def change(**values) -> dict:
    return {**copy.deepcopy(FOUND), **values}


def test_equal_outputs_pass(certificate):
    certificate.compare("here", EXPECTED, change(acoustic_score=-2.0001))
    assert certificate.largest_difference == pytest.approx(5e-5)
    assert certificate.num_ties == 0


def test_n_best_scores_have_a_separate_tolerance():
    """Only n-best scores include the score from Whisper's decoder, multiplied by its weight."""
    certificate = parity.Certificate(1, 1, rank_tolerance=4e-4)
    n_best = [{"transcript": "你好", "score": -2.5008}, {"transcript": "你号", "score": -4.0}]
    certificate.compare("here", EXPECTED, change(n_best=n_best))
    with pytest.raises(errors.UserError, match="more than the tolerance of 0.0001"):
        certificate.compare("here", EXPECTED, change(n_best=n_best, confidence=0.9003))


def test_a_different_text_is_refused(certificate):
    with pytest.raises(errors.UserError) as refused:
        certificate.compare("export: u1 in features, batch of 3", EXPECTED, change(transcript="你号"))
    assert str(refused.value) == (
        "export: u1 in features, batch of 3: transcript is '你号', expected '你好'. Nothing was exported, "
        "because the SavedModel is wrong. Report this error with your TensorFlow version."
    )


def test_different_marks_are_refused(certificate):
    expected = {**EXPECTED, "punctuated": "你好。"}
    certificate.compare("here", expected, change(punctuated="你好。"))
    message = "here: punctuated is '你，好。', expected '你好。'. Nothing was exported"
    with pytest.raises(errors.UserError, match=message):
        certificate.compare("here", expected, change(punctuated="你，好。"))


def test_a_different_status_is_refused(certificate):
    with pytest.raises(errors.UserError, match="here: status is silent, expected ok. Nothing was exported"):
        certificate.compare("here", EXPECTED, change(status="silent"))


@pytest.mark.parametrize(
    "changed",
    [
        {"acoustic_score": -2.001},
        {"language_score": -0.5002},
        {"n_best": [{"transcript": "你好", "score": -2.501}, {"transcript": "你号", "score": -4.0}]},
        {"n_best": [{"transcript": "你好", "score": -2.5}]},
        {"n_best": [{"transcript": "你好", "score": -2.5}, {"transcript": "泥号", "score": -3.0}]},
        {"acoustic_score": float("nan")},
        {"confidence": 0.8},
        {"characters": [CHARACTERS[0], {**CHARACTERS[1], "start": 0.3}]},
        {"characters": [CHARACTERS[0], {**CHARACTERS[1], "end": 0.3}]},
        {"characters": [CHARACTERS[0], {**CHARACTERS[1], "confidence": 0.3}]},
    ],
)
def test_different_scores_are_refused(certificate, changed):
    with pytest.raises(errors.UserError, match="here: scores or times differ by .*, more than the tol"):
        certificate.compare("here", EXPECTED, change(**changed))


def test_a_model_without_a_score_is_refused(certificate):
    nothing = {"transcript": "", "pinyin": "", "acoustic_score": float("nan"), "n_best": [], "characters": []}
    with pytest.raises(errors.UserError, match="here: scores or times differ by inf, more than the tol"):
        certificate.compare("here", {**EXPECTED, **nothing}, change(**nothing))


def test_hypotheses_with_equal_scores_may_swap_ranks(certificate):
    n_best = [{"transcript": "你好", "score": -2.5}, {"transcript": "你号", "score": -2.50001}]
    expected = {**EXPECTED, "n_best": n_best}
    certificate.compare("here", expected, change(transcript="你号", n_best=n_best[::-1]))
    assert certificate.num_ties == 1
    with pytest.raises(errors.UserError, match="here: transcript is '泥', expected '你好'"):
        certificate.compare("here", expected, change(transcript="泥"))


@pytest.fixture(scope="module")
def utterances(tiny_export):
    spoken = [
        sample.ParityUtterance(name, tiny_models.extract(waveform), waveform)
        for name, (*_, waveform) in list(tiny_export.utterances.items())[:4]
    ]
    fbank = np.float32(np.random.default_rng(0).normal(8, 2, [30, 20]))
    return [*spoken, sample.ParityUtterance("u9", fbank, None)]


@pytest.mark.long
def test_an_export_agrees_with_its_models_in_all_batches(tiny_export, trained_models, utterances):
    certificate = parity.certify(tiny_export.version_dir, *trained_models, utterances)
    # There are three batch sizes, and the features have two paddings.
    assert certificate.comparisons == {"features": 5 * 3 * 2, "serving_default": 4 * 3}
    assert (certificate.num_utterances, certificate.num_recordings) == (5, 4)
    assert certificate.largest_difference < 1e-4


@pytest.mark.long
def test_marks_agree_and_those_of_another_model_do_not(punctuated_export, utterances, tmp_path):
    directory = os.path.dirname(punctuated_export)
    *pair, punctuation = (
        trained_model.open_trained_model(os.path.join(directory, name)) for name in ("am", "lm", "pm")
    )
    version = recogniser.find_version(punctuated_export)
    certificate = parity.certify(version, *pair, utterances, punctuation)
    assert certificate.comparisons["serving_default"] == 4 * 3
    model = trained_model.build_recogniser(*pair, punctuation)
    with contextlib.closing(model.session):
        (found,) = parity._recognise_each(model, [utterances[3].fbank])
    assert found["punctuated"] != found["transcript"]
    marked = [item["character"] + item["mark"] for item in found["characters"]]
    assert found["punctuated"] == "".join(marked)
    tiny_models.make_punctuation_model(str(tmp_path / "other"), seed=4)
    other = trained_model.open_trained_model(str(tmp_path / "other"))
    message = "^export: utterance u. in features, batch of 1: punctuated is '.*', expected '.*'. Nothing was"
    with pytest.raises(errors.UserError, match=message):
        parity.certify(version, *pair, utterances, other)


@pytest.mark.long
def test_streams_agree_in_pieces_and_streams_of_another_model_do_not(streaming_export, utterances, tmp_path):
    directory = os.path.dirname(streaming_export)
    acoustic, language = (
        trained_model.open_trained_model(os.path.join(directory, each)) for each in ("am", "lm")
    )
    version = recogniser.find_version(streaming_export)
    certificate = parity.certify(version, acoustic, language, utterances)
    assert certificate.comparisons["stream_features"] == len(utterances)
    assert certificate.largest_difference < 1e-4
    tiny_models.make_acoustic_model(str(tmp_path / "other"), chunk_frames=16, seed=4)
    other = trained_model.open_trained_model(str(tmp_path / "other"))
    loaded = recogniser.load_version(version)
    with contextlib.closing(loaded.session):
        with pytest.raises(errors.UserError, match="in stream_features, pieces"):
            parity._compare_streams(parity.Certificate(1, 1), loaded, other, language, utterances)


@pytest.mark.long
def test_an_export_of_another_model_is_refused(tiny_export, trained_models, utterances, tmp_path):
    other = tiny_models.make_acoustic_model(str(tmp_path / "am"), seed=5)
    acoustic = trained_model.open_trained_model(other.path)
    message = "^export: utterance u0 in features, batch of 1: .* exported, because the SavedModel"
    with pytest.raises(errors.UserError, match=message):
        parity.certify(tiny_export.version_dir, acoustic, trained_models[1], utterances)


def test_features_of_recordings_equal_those_of_the_builder(trained_models, utterances):
    (fbank,) = parity.extract_features(trained_models[0].model, [utterances[0].waveform])
    np.testing.assert_allclose(fbank, utterances[0].fbank, rtol=1e-5, atol=1e-5)
