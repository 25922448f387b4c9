import numpy as np
import pytest
import small_records

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import experiment, training_config
from estimator_asr.inputs import batches
from estimator_asr.monitoring.diagnostics.doctor import model
from estimator_asr.training.checkpointing import best_checkpoints
from tfrecord_builder import errors


def test_a_model_that_opens_is_listed_with_its_step(tiny_export):
    found = [tuple(finding) for finding in model.check(tiny_export.acoustic_dir)]
    assert found[:2] == [
        ("ok", "acoustic model of token type syllable with 7 classes; no file is missing"),
        ("ok", "checkpoint of step 7 can be read"),
    ]
    assert found[2][0] == "warning" and len(found) == 3
    assert "because no checkpoint has been evaluated yet" in found[2][1]


def test_best_evaluation_and_last_alarm_are_listed(tiny_export, monkeypatch):
    entry = best_checkpoints.KeptCheckpoint(6, 0.125, {})
    monkeypatch.setattr(model.best_checkpoints, "read_best", lambda path: [entry])
    monkeypatch.setattr(model.watchdog, "last_alarm", lambda path: (5, "all is lost"))
    found = [tuple(finding) for finding in model.check(tiny_export.acoustic_dir)]
    assert found[2:] == [
        ("ok", "best on dev at step 6: token-error-rate 0.1250"),
        ("warning", "last alarm at step 5: all is lost"),
    ]


def test_a_directory_without_a_model_is_refused(tmp_path):
    with pytest.raises(errors.UserError, match="model directory does not exist"):
        list(model.check(str(tmp_path / "nowhere")))


@pytest.mark.long
def test_data_and_model_are_compared(tiny_export):
    finding, of_batch = model.check_data(tiny_export.acoustic_dir, [tiny_export.data_dir])
    assert of_batch.text.startswith("the first batch matches its ")
    assert finding.level == "ok"
    assert finding.text.startswith(f"{tiny_export.data_dir} has the same vocabulary")
    with pytest.raises(errors.UserError, match="sha256 of tokens.txt is .*, expected"):
        list(model.check_data(tiny_export.language_dir, [tiny_export.data_dir]))


RECORDS = [np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(8, dtype=np.float32).reshape(4, 2)]
IDS = [[3, 1], [2]]
EXAMPLES = [
    {"utterance_id": name, "token_ids": np.int32(ids), "character_ids": np.int32(ids) + 1, "fbank": fbank}
    for name, ids, fbank in zip((b"u0", b"u1"), IDS, RECORDS)
]


def make_features():
    """Returns a batch of both utterances; frame 1 of the first utterance is masked."""
    fbank = np.zeros([2, 6, 2], np.float32)
    for row, record in enumerate(RECORDS):
        fbank[row, : len(record)] = record
    fbank[0, 1] = [5, 6]  # means of 0, 2 ... 10 and 1, 3 ... 11
    return {
        **{"fbank": fbank, "num_frames": np.int32([6, 4])},
        **{"token_ids": np.int32([[3, 1], [2, 0]]), "num_tokens": np.int32([2, 1])},
        **{"character_ids": np.int32([[4, 2], [3, 0]]), "num_characters": np.int32([2, 1])},
    }


def compare(features=None, labels=None, is_masked=True):
    return list(model.compare(features or make_features(), labels or {}, EXAMPLES, is_masked))


def test_a_batch_equal_to_its_records_has_no_mismatch():
    assert compare() == []


@pytest.mark.parametrize(
    ("name", "place", "value", "said"),
    [
        ("token_ids", (1, 0), 4, "u1: token_ids[0] is 4, expected 2 as in the record"),
        ("num_tokens", 0, 1, "u0: shape of token_ids is [1], expected [2] as in the record"),
        ("token_ids", (1, 1), 4, "u1: padding of token_ids contains values other than zero"),
        ("character_ids", (0, 1), 0, "u0: character_ids[1] is 0, expected 2 as in the record"),
        ("num_frames", 0, 5, "u0: shape of fbank is [5, 2], expected [6, 2] as in the record"),
        ("fbank", (1, 3, 0), 6.5, "u1: fbank[3, 0] is 6.5, expected 6 as in the record or the mean 3"),
        ("fbank", (1, 5, 0), 1, "u1: padding of fbank contains values other than zero"),
    ],
)
def test_values_that_differ_from_the_record_are_mismatches(name, place, value, said):
    features = make_features()
    features[name][place] = value
    assert said in compare(features)


def test_a_masked_value_without_spec_augment_is_a_mismatch():
    assert compare(is_masked=False) == ["u0: fbank[1, 0] is 5, expected 2 as in the record"]


def test_labels_that_differ_from_the_record_are_a_mismatch():
    labels = {"token_ids": np.array([[0, 1], [2, 0]]), "num_tokens": np.array([2, 1])}
    assert compare(labels=labels) == ["u0: token_ids[0] is 0, expected 3 as in the record"]


@pytest.mark.parametrize("kind", ["acoustic", "language"])
def test_the_first_training_batch_equals_its_records(tmp_path, kind):
    (finding,) = model.check_batch(make_config(tmp_path, kind), [str(tmp_path / "data")])
    assert finding.level == "ok" and finding.text.startswith("the first batch matches its ")


def test_input_that_shifts_label_ids_is_a_problem(tmp_path, monkeypatch):
    config, finish = make_config(tmp_path, "language"), batches.finish

    def finish_wrong(*arguments, **options):
        features = finish(*arguments, **options)
        return {**features, "token_ids": features["token_ids"] + 1}

    monkeypatch.setattr(batches, "finish", finish_wrong)
    found = list(model.check_batch(config, [str(tmp_path / "data")]))
    assert {finding.level for finding in found} == {"problem"}
    assert any(": token_ids[0] is " in finding.text for finding in found)


def make_config(tmp_path, kind):
    info = small_records.make_data(str(tmp_path / "data"))
    return experiment.ExperimentConfig.for_data(
        info,
        input=config_lib.InputConfig(batch_frames=300, num_buckets=2, time_mask_fraction=0.5),
        train=training_config.TrainConfig(model=kind),
    )
