import json
import subprocess
import sys
import types

import paths
import pytest
import small_models
import tensorflow as tf

from estimator_asr.experiment import training_config
from estimator_asr.monitoring.diagnostics import observers
from estimator_asr.training import loop, step_time
from estimator_asr.training import plan as plan_lib
from estimator_asr.training.distributed import cluster
from tfrecord_builder import errors


def observe(model, infos, dirs, of_cluster):
    plan = plan_lib.build_plan(model, infos, dirs, 0)
    return observers.Training(model, infos, dirs, "train", of_cluster).observe(plan, step_time.Clock())


@pytest.mark.parametrize(
    "rank, num_hooks, is_watched, event_dir",
    [
        (0, 4, True, "model"),  # the chief: progress, data wait, NaN recorder, watchdog
        (1, 3, False, "model/worker-1"),
        (None, 4, True, "model/evaluator"),
    ],
)
def test_each_process_of_a_cluster_has_its_own_observers(tmp_path, rank, num_hooks, is_watched, event_dir):
    model, infos, dirs = small_models.make_for_loop(tmp_path, train_steps=3)
    task = cluster.Cluster(("a:1", "b:1"), "c:1", rank)
    observed = observe(model, infos, dirs, task)
    assert len(observed.build_hooks) == num_hooks
    assert [call.__name__ for call in observed.after_evaluation] == ["add_evaluation"] * is_watched
    assert observers.Training(model, infos, dirs, "", task).event_dir == str(tmp_path / event_dir)


def test_the_watchdog_knows_how_much_data_an_epoch_has(tmp_path):
    model, infos, dirs = small_models.make_for_loop(tmp_path, train_steps=3)
    (add_evaluation,) = observe(model, infos, dirs, None).after_evaluation
    estimator = types.SimpleNamespace(eval_dir=lambda: str(tmp_path / "eval"))
    with tf.Graph().as_default():  # event files cannot be written with eager execution
        add_evaluation(estimator, "", {"global_step": 3, "length-ratio": 0.0})
    epochs = 3 / plan_lib.build_plan(model, infos, dirs, 0).steps_per_epoch
    (alarm,) = (tmp_path / "model" / "alarms.log").read_text(encoding="utf-8").splitlines()
    seen = f"{epochs:.1f} epochs of 12 utterances"
    assert f"likely cause: the model has seen too little data ({seen}), so train " in alarm


@pytest.mark.long
def test_training_with_a_nan_loss_ends_with_one_sentence(tmp_path):
    wild = training_config.OptimizerConfig(learning_rate=1e38, warmup_epochs=0, clip_norm=0)
    model, infos, dirs = small_models.make_for_loop(tmp_path, optimizer=wild, train_steps=50)
    observe = observers.Training(model, infos, dirs, "train", None).observe
    said = r"nan/step-\d+: .* at step \d+; .* run python -m estimator_asr.replay"
    with pytest.raises(errors.UserError, match=said):
        loop.train(model, infos, dirs, observe=observe)


OPTIONAL_MODULES = [
    "estimator_asr.pretrained.warm_start",
    "estimator_asr.monitoring.diagnostics.overfit",
    "estimator_asr.monitoring.prediction_samples",
    "estimator_asr.training.optimizer.gradient_accumulation",
]


@pytest.mark.long
def test_train_imports_optional_modules_only_if_a_flag_enables_them():
    code = (
        "import json, sys, estimator_asr.train; packages = ('estimator_asr', 'tfrecord_builder'); "
        "print(json.dumps([name for name, module in sys.modules.items()"
        " if name.split('.')[0] in packages and not hasattr(module, '__path__')]))"
    )
    completed = subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, capture_output=True, text=True)
    loaded = json.loads(completed.stdout)
    assert not set(OPTIONAL_MODULES) & set(loaded)
    assert len(loaded) <= 75, sorted(loaded)
