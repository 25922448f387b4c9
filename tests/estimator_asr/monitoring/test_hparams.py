import dataclasses

import event_files
import pytest
import small_records
from tensorboard.plugins.hparams import api_pb2, metadata

from estimator_asr.experiment import experiment, training_config
from estimator_asr.monitoring import hparams
from estimator_asr.training import stopping


def make_config(tmp_path, model="acoustic", **optimizer):
    info = small_records.make_data(str(tmp_path / "data"))
    return experiment.ExperimentConfig.for_data(
        info,
        optimizer=training_config.OptimizerConfig(**optimizer),
        train=training_config.TrainConfig(model=model, train_steps=9),
    )


def read(path):
    """Returns the content of the HParams summaries in a directory, keyed by tag; each tag must be unique."""
    values = [value for _, value in event_files.read_values(path)]
    found = {value.tag: value.metadata.plugin_data.content for value in values}
    assert len(found) == len(values)
    return found


def read_start(path):
    content = read(path)[metadata.SESSION_START_INFO_TAG]
    return metadata.parse_session_start_info_plugin_data(content).hparams


def read_status(path):
    content = read(path)[metadata.SESSION_END_INFO_TAG]
    return metadata.parse_session_end_info_plugin_data(content).status


def test_settings_are_flattened_by_flag_name(tmp_path):
    settings = make_config(tmp_path, decay_boundary_epochs=(2.0, 3.5), decay_factors=(1.0, 0.5, 0.1))
    flat = hparams.flatten(settings)
    assert flat["encoder"] == "conformer" and flat["encoder_layers"] == 6.0 and flat["spec_augment"] is True
    assert flat["decay_boundary_epochs"] == "2,3.5" and flat["train_steps"] == 9.0 and flat["seed"] == 1.0
    assert "train_epochs" not in flat  # not set
    assert "language_layers" not in flat  # a setting of the other model
    assert "progress_seconds" not in flat and "save_checkpoints_steps" not in flat  # do not affect the model


def test_the_tab_has_the_columns_of_all_models_with_the_error_rate_first(tmp_path):
    with hparams.session(str(tmp_path), make_config(tmp_path, model="language")):
        found = metadata.parse_experiment_plugin_data(read(tmp_path)[metadata.EXPERIMENT_TAG])
    columns = {info.name: info for info in found.hparam_infos}
    assert {"encoder_layers", "language_layers", "optimizer", "batch_frames", "seed"} <= set(columns)
    assert columns["encoder"].type == api_pb2.DATA_TYPE_STRING
    assert columns["spec_augment"].type == api_pb2.DATA_TYPE_BOOL
    assert columns["train_steps"].type == api_pb2.DATA_TYPE_FLOAT64
    assert columns["language_units"].differs and not columns["encoder_units"].differs
    tags = ["character-error-rate", "avg-loss", "token-error-rate", "mark-error-rate"]
    names = [(info.name.group, info.name.tag) for info in found.metric_infos]
    assert names == [("eval", tag) for tag in tags]


def test_a_run_is_running_then_finished(tmp_path):
    with hparams.session(str(tmp_path), make_config(tmp_path)):
        assert set(read(tmp_path)) == {metadata.EXPERIMENT_TAG, metadata.SESSION_START_INFO_TAG}
    assert read_status(tmp_path) == api_pb2.STATUS_SUCCESS


@pytest.mark.parametrize(
    "error, status", [(ValueError, api_pb2.STATUS_FAILURE), (stopping.Terminated, api_pb2.STATUS_RUNNING)]
)
def test_an_error_is_a_failure_and_sigterm_is_not(tmp_path, error, status):
    with pytest.raises(error), hparams.session(str(tmp_path), make_config(tmp_path)):
        raise error
    assert read_status(tmp_path) == status


def test_a_continued_run_shows_the_settings_of_its_last_start(tmp_path, monkeypatch):
    seconds = iter(range(100))
    monkeypatch.setattr(hparams.time, "time", lambda: 1.7e9 + next(seconds))  # so each file has its own name
    first = make_config(tmp_path, learning_rate=0.5)
    second = dataclasses.replace(first, optimizer=training_config.OptimizerConfig(learning_rate=0.25))
    for settings in (first, second):
        with hparams.session(str(tmp_path), settings):
            assert read_start(tmp_path)["learning_rate"].number_value == settings.optimizer.learning_rate
            assert metadata.SESSION_END_INFO_TAG not in read(tmp_path)
    assert read_status(tmp_path) == api_pb2.STATUS_SUCCESS
    assert len(list(tmp_path.glob("events.*"))) == 1 and not list(tmp_path.glob("*incomplete*"))
