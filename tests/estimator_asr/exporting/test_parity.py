"""The parity certificate: an honest export passes, one whose answers were changed is refused by name."""

from __future__ import annotations

import copy
import dataclasses
import json

import numpy as np
import pytest
import tiny_models

from estimator_asr.exporting import parity
from estimator_asr.serving import recogniser
from tfrecord_builder import errors

FOUND = {
    "transcript": "你好",
    "pinyin": "ni3 hao3",
    "acoustic_score": -2.0,
    "language_score": -0.5,
    "confidence": 0.9,
    "n_best": [{"transcript": "你好", "score": -2.5}, {"transcript": "你号", "score": -4.0}],
}


@pytest.fixture
def certificate():
    return parity.Certificate(1, 1)


def change(**values) -> dict:
    return {**copy.deepcopy(FOUND), **values}


def test_equal_outputs(certificate):
    certificate.compare("here", FOUND, change(acoustic_score=-2.0001))
    assert certificate.largest_difference == pytest.approx(5e-5)
    assert certificate.num_ties == 0


def test_other_text_is_refused(certificate):
    with pytest.raises(errors.UserError) as refused:
        certificate.compare("export: u1 in features, batch of 3", FOUND, change(transcript="你号"))
    assert str(refused.value) == (
        "export: u1 in features, batch of 3: transcript is '你号', expected '你好' as by the checkpoints; "
        "nothing was exported: the SavedModel is wrong; report it with the version of TensorFlow"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"acoustic_score": -2.001},
        {"language_score": -0.5002},
        {"confidence": 0.9002},
        {"n_best": [{"transcript": "你好", "score": -2.501}]},
        {"acoustic_score": float("nan")},
    ],
)
def test_other_scores_are_refused(certificate, changed):
    with pytest.raises(errors.UserError, match="here: scores differ from those of the checkpoints by"):
        certificate.compare("here", FOUND, change(**changed))


def test_hypotheses_of_equal_scores_may_change_places(certificate):
    tied = change(n_best=[{"transcript": "你好", "score": -2.5}, {"transcript": "你号", "score": -2.50001}])
    certificate.compare("here", tied, {**copy.deepcopy(tied), "transcript": "你号"})
    assert certificate.num_ties == 1


def read_utterances(tiny_export) -> list[parity.Utterance]:
    return [
        parity.Utterance(name, tiny_models.extract(waveform), waveform)
        for name, (*_, waveform) in tiny_export.utterances.items()
    ]


def load(tiny_export) -> dict[str, recogniser.Recogniser]:
    return {name: recogniser.load(tiny_export.version_dir, name) for name in ("features", "waveform")}


def test_an_export_agrees_with_itself_in_all_batches(tiny_export):
    utterances = [
        *read_utterances(tiny_export)[:4],
        parity.Utterance("quiet", np.ones([30, 20], np.float32), None),
    ]
    certificate = parity.certify(tiny_export.version_dir, load(tiny_export), utterances, 16000)
    # Three batch sizes; two paddings of the features.
    assert certificate.comparisons == {"features": 5 * 3 * 2, "serving_default": 4 * 3}
    assert (certificate.num_utterances, certificate.num_recordings) == (5, 4)
    assert certificate.largest_difference < 1e-4


def test_another_models_answers_are_refused(tiny_export):
    references = load(tiny_export)
    features = references["features"]

    class Changed:
        def run(self, batch):
            found = features.run(batch)
            return {**found, "pinyin": ["shi4"]}

    with pytest.raises(
        errors.UserError, match="export: u0 in features, batch of 1: pinyin is .*, expected 'shi4'"
    ):
        utterances = read_utterances(tiny_export)[:1]
        parity.certify(tiny_export.version_dir, {**references, "features": Changed()}, utterances, 16000)


def test_the_certificate_is_a_file(certificate, tmp_path):
    (tmp_path / "assets.extra").mkdir()
    certificate.save(str(tmp_path))
    saved = json.loads((tmp_path / "assets.extra" / "parity.json").read_text())
    assert saved == json.loads(json.dumps(dataclasses.asdict(certificate)))
