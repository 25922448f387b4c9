"""The cascade with graphs in plain Python, so that results can be checked by hand."""

import json
import math

import numpy as np
import pytest
import runtime_models
from runtime_models import make_log_probs, make_model

from estimator_asr_runtime import errors, recogniser, statuses

SPEECH = np.full(16000, 0.1, np.float32)
NI_HAO = [4, 1, 4, 4, 2, 2]
NI_OR_HAO = np.log(np.float32([[[0.01, 0.47, 0.5, 0.01, 0.01]]]))  # a single frame
KEYS = {
    *("transcript", "pinyin", "greedy_pinyin", "acoustic_score", "language_score", "confidence"),
    *("status", "characters", "n_best"),
}


def recognise(model, words=(), speech=SPEECH):
    return recogniser.Recogniser(model, words).recognise(speech)


def test_a_transcript_with_a_language_model():
    found = recognise(make_model(make_log_probs(NI_HAO), runtime_models.LanguageGraph()))
    assert set(found) == KEYS
    assert (found["transcript"], found["pinyin"], found["greedy_pinyin"]) == ("你好", "ni3 hao3", "ni3 hao3")
    assert found["language_score"] == pytest.approx(math.log(0.75), rel=1e-5)
    assert found["status"] == "ok"
    first, second = found["characters"]
    assert list(first.values())[:4] == ["你", "ni3", 0.04, 0.08]
    assert list(first) == ["character", "pinyin", "start", "end", "confidence"]
    assert list(second.values())[:4] == ["好", "hao3", 0.16, 0.24]
    confidences = [first["confidence"], second["confidence"]]
    assert confidences == pytest.approx([0.9, 0.9 * 0.75])
    assert found["confidence"] == pytest.approx(np.mean(confidences))
    assert found["n_best"][0]["transcript"] == "你好"


def test_transcripts_are_tokens_if_there_is_no_language_model():
    found = recognise(make_model(make_log_probs(NI_HAO)))
    assert (found["transcript"], found["language_score"]) == ("ni3 hao3", 0.0)
    assert [each["character"] for each in found["characters"]] == ["ni3", "hao3"]


def test_greedy_has_the_score_of_the_best_path():
    found = recognise(make_model(make_log_probs(NI_HAO), acoustic={"decoding": "greedy"}))
    assert found["acoustic_score"] == pytest.approx(6 * math.log(0.9), rel=1e-5)
    assert len(found["n_best"]) == 1


def test_a_letter_that_the_language_model_lacks_is_kept():
    found = recognise(make_model(make_log_probs([3, 4, 2]), runtime_models.LanguageGraph()))
    assert found["transcript"] == "A好"
    toneless = make_model(make_log_probs([3, 4, 2]), runtime_models.LanguageGraph(), token_type="toneless")
    assert recognise(toneless)["transcript"] == "a好"


def test_the_language_model_reorders_hypotheses():
    """Two tokens are almost equally likely; hao3 has two characters, ni3 only one."""
    language = runtime_models.LanguageGraph()
    assert recognise(make_model(NI_OR_HAO, language))["transcript"] == "好"
    found = recognise(make_model(NI_OR_HAO, language, acoustic={"language_weight": 1.0}))
    assert found["transcript"] == "你"
    assert found["n_best"][0]["score"] == pytest.approx(math.log(0.47), rel=1e-4)


def test_the_attention_decoder_reorders_hypotheses():
    decoder = runtime_models.Graph(scores=np.float32([-8, -2]))
    decode = {"attention_weight": 0.5, "beam_width": 2}
    found = recognise(make_model(NI_OR_HAO, decoder=decoder, acoustic=decode))
    assert found["transcript"] == "ni3"
    (inputs,) = decoder.inputs
    assert inputs["token_ids"].tolist() == [[2], [1]]
    assert inputs["num_tokens"].tolist() == [1, 1]
    assert found["n_best"][0]["score"] == pytest.approx(math.log(0.47) - 1, rel=1e-5)
    assert found["acoustic_score"] == pytest.approx(math.log(0.47), rel=1e-5)


def test_silence_has_no_characters():
    found = recognise(make_model(make_log_probs([4, 4, 4], most=0.999), runtime_models.LanguageGraph()))
    assert (found["transcript"], found["characters"], found["confidence"]) == ("", [], 0.0)


def test_hotwords_are_favoured_and_written():
    log_probs = np.log(np.float32([[[0.01, 0.6, 0.37, 0.01, 0.01]]]))
    model = make_model(log_probs, runtime_models.LanguageGraph())
    assert recognise(model)["transcript"] == "你"
    assert recognise(model, ["号 hao3 3"])["transcript"] == "号"


@pytest.mark.parametrize(
    ("speech", "status"),
    [
        (np.zeros(16000), statuses.SILENT),
        (np.ones(399), statuses.EMPTY),
        (np.ones(32001), statuses.TOO_LONG),
        (np.full(400, np.inf), statuses.NOT_FINITE),
    ],
)
def test_an_utterance_whose_status_is_not_ok_is_empty(speech, status):
    found = recognise(make_model(make_log_probs(NI_HAO)), speech=np.float32(speech))
    assert set(found) == KEYS
    assert (found["status"], found["transcript"], found["characters"]) == (status, "", [])
    assert found["n_best"] == [{"transcript": "", "score": 0.0}]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -200, -2, 0.5, 88, None])
def test_a_graph_without_valid_log_probabilities(value):
    """If the value is None, there are no frames."""
    log_probs = make_log_probs(NI_HAO)[:, : 6 if value else 0]
    log_probs[0, 1:2] = value
    problem = rf"^m: the acoustic graph returned no valid log probabilities \({log_probs.shape[1]} frames\)"
    with pytest.raises(errors.UserError, match=problem):
        recognise(make_model(log_probs))


def test_nan_of_the_language_graph_or_the_decoder():
    """Of the two hypotheses, hao3 and ni3, only ni3 has finite scores."""
    language = runtime_models.LanguageGraph()
    run = language.run
    language.run = lambda inputs: {
        **run(inputs),
        "log_probs": np.where(inputs["token_ids"][..., None] == 2, np.nan, run(inputs)["log_probs"]),
    }
    decode = {"attention_weight": 0.5, "beam_width": 2}
    decoder = runtime_models.Graph(scores=np.float32([np.nan, -2]))
    for model in (make_model(NI_OR_HAO, language), make_model(NI_OR_HAO, decoder=decoder, acoustic=decode)):
        found = recognise(model)
        assert found["pinyin"] == "ni3"
        json.dumps(found, allow_nan=False)
    decoder = runtime_models.Graph(scores=np.float32([np.nan, np.nan]))
    with pytest.raises(errors.UserError, match="^m: no transcript has a finite score"):
        recognise(make_model(NI_OR_HAO, decoder=decoder, acoustic=decode))


@pytest.mark.parametrize(
    ("speech", "got"),
    [(np.ones(400, np.int16), "int16 and rank 1"), (np.ones([1, 400]), "float64 and rank 2")],
)
def test_a_waveform_of_another_type_or_rank(speech, got):
    with pytest.raises(errors.UserError) as raised:
        recognise(make_model(make_log_probs(NI_HAO)), speech=speech)
    expected = "expected type float32, rank 1 and full scale 1; convert it"
    assert str(raised.value) == f"the waveform has type {got}, {expected}"
