import os
import shutil

import numpy as np
import programs
import pytest
import small_checkpoints
import tiny_models

from estimator_asr import average, evaluate
from estimator_asr.experiment import checkpoints, model_directory
from estimator_asr.exporting.saved_model import trained_model
from estimator_asr.training.checkpointing import best_checkpoints
from tfrecord_builder import errors
from tfrecord_builder.storage import locks


@pytest.fixture
def model(tiny_export, tmp_path):
    """A model with three checkpoints in best/; from best to worst, their steps are 20, 10 and 30."""
    path = shutil.copytree(tiny_export.acoustic_dir, str(tmp_path / "am"))
    model = model_directory.open_model_directory(path)
    weights = average.average_variables([checkpoints.latest(path)])
    for step, rate in [(10, 0.3), (20, 0.2), (30, 0.4)]:
        changed = {name: shift(value, step) for name, value in weights.items()}
        slots = {"acoustic/ctc/bias/Adam": np.float32([1]), "beta1_power": np.float32(1)}
        saved = small_checkpoints.save(path, step, {**changed, **slots, "global_step": np.int64(step)})
        best_checkpoints.keep_if_best(model, saved, {"token-error-rate": rate, "global_step": step})
    return model


def shift(value, step):
    """Adds a number to a float32 weight; the numbers for the three steps add up to 0."""
    return value + np.float32({10: 1, 20: -1, 30: 0}[step]) if value.dtype == np.float32 else value


@pytest.mark.long
def test_the_average_of_shifted_checkpoints_is_the_original_model(tiny_export, model):
    path, entries = average.average(average.AverageConfig(model.path))
    assert path == os.path.join(model.path, "averaged") and [entry.step for entry in entries] == [20, 10, 30]
    averaged = trained_model.open_trained_model(path)
    assert averaged.checkpoint == os.path.join(path, "model.ckpt-30") and averaged.global_step == 30
    fbank = tiny_models.extract(tiny_models.make_waveform(30000, seed=0))
    batch = {"fbank": fbank[None], "num_frames": [len(fbank)]}
    expected = trained_model.build_recogniser(trained_model.open_trained_model(tiny_export.acoustic_dir))
    got = trained_model.build_recogniser(averaged).run(batch)
    assert got["pinyin"] == expected.run(batch)["pinyin"]
    names = checkpoints.read_shapes(averaged.checkpoint)
    assert "acoustic/ctc/bias" in names and "acoustic/ctc/bias/Adam" not in names
    with pytest.raises(errors.UserError, match="but no optimizer state"):
        checkpoints.require_optimizer(averaged.checkpoint, "adam", "float32")


def test_the_best_are_averaged_and_an_older_average_is_replaced(model):
    average.average(average.AverageConfig(model.path))
    path, entries = average.average(average.AverageConfig(model.path, num_checkpoints=1))
    assert [entry.step for entry in entries] == [20] and checkpoints.latest(path).endswith("model.ckpt-20")
    assert checkpoints.list_checkpoints(path) == [checkpoints.latest(path)]
    assert [name for name in os.listdir(model.path) if "averaged" in name] == ["averaged"]


@pytest.mark.long
def test_the_program_lists_the_checkpoints_and_evaluate_reads_the_result(tiny_export, model, tmp_path):
    completed = programs.run("estimator_asr.average", f"--model_dir={model.path}")
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines() == [
        "only 3 of 5 checkpoints are available",
        "step 20: error rate on dev 20.00 %",
        "step 10: error rate on dev 30.00 %",
        "step 30: error rate on dev 40.00 %",
        f"average of 3 checkpoints: {model.path}/averaged",
    ]
    where = {"model_dir": f"{model.path}/averaged", "data_dir": (tiny_export.data_dir,)}
    config = evaluate.EvaluateConfig(**where, output_dir=str(tmp_path / "report"))
    assert evaluate.evaluate(config)["token_error_rate"]["reference_length"] > 0


def test_a_model_without_best_checkpoints_is_refused(tiny_export):
    said = "am/best has no best checkpoints; train with a dev split"
    with pytest.raises(errors.UserError, match=said):
        average.average(average.AverageConfig(tiny_export.acoustic_dir))


def test_a_damaged_checkpoint_is_refused_and_the_older_average_kept(model):
    path, _ = average.average(average.AverageConfig(model.path))
    small_checkpoints.cut(f"{best_checkpoints.prefix(model.path, 10)}.data-00000-of-00001")
    with pytest.raises(errors.UserError, match="model.ckpt-10: checkpoint cannot be read"):
        average.average(average.AverageConfig(model.path))
    assert trained_model.open_trained_model(path).global_step == 30


def test_a_second_average_is_refused(model):
    averaged = os.path.join(model.path, "averaged")
    with locks.exclusive(f"{averaged}.lock", ""), pytest.raises(errors.UserError) as raised:
        average.average(average.AverageConfig(model.path))
    said = f"--model_dir: another average process is writing {averaged}; wait until it ends"
    assert str(raised.value) == said


@pytest.mark.parametrize(
    "flags, said",
    [((), "--model_dir is missing; pass it"), (("am", 0), "--num_checkpoints=0: expected more than 0")],
)
def test_invalid_flags_are_refused(flags, said):
    with pytest.raises(errors.UserError, match=said):
        average.AverageConfig(*flags)


def save(tmp_path, step, **values):
    return small_checkpoints.save(tmp_path, step, {f"a/{name}": value for name, value in values.items()})


def test_floats_are_averaged_and_other_variables_are_from_the_last_checkpoint(tmp_path):
    prefixes = [
        save(tmp_path, 10, kernel=np.float32([[1, 2]]), num_updates=np.int64(3), name=np.array(b"old")),
        save(tmp_path, 20, kernel=np.float32([[2, 4]]), num_updates=np.int64(5), name=np.array(b"new")),
        save(tmp_path, 30, kernel=np.float32([[6, 3]]), num_updates=np.int64(9), name=np.array(b"newest")),
    ]
    values = average.average_variables(prefixes)
    assert values["a/kernel"].tolist() == [[3, 3]] and values["a/kernel"].dtype == np.float32
    assert (values["a/num_updates"], values["a/name"], values["global_step"]) == (9, b"newest", 30)


def test_the_sum_is_made_in_float64(tmp_path):
    big, small = np.float32(2**24), np.float32(1)  # big + small is big in float32
    prefixes = [save(tmp_path, step, w=value) for step, value in enumerate([big, small, small, -big])]
    assert average.average_variables(prefixes)["a/w"] == 0.5


def test_slots_and_scalars_of_the_optimizer_are_left_out(tmp_path):
    names = ("a/w", "a/w/Adam", "a/norm/moving_mean", "beta1_power")
    prefix = small_checkpoints.save(tmp_path, 1, {name: np.float32([1]) for name in names})
    assert sorted(average.average_variables([prefix])) == ["a/norm/moving_mean", "a/w", "global_step"]


def test_checkpoints_of_different_models_are_refused(tmp_path):
    prefixes = [save(tmp_path, 1, w=np.zeros([2])), save(tmp_path, 2, w=np.zeros([3]))]
    said = "model.ckpt-1 and .*model.ckpt-2 have different variables, .* remove model.ckpt-1 from best"
    with pytest.raises(errors.UserError, match=said):
        average.average_variables(prefixes)
