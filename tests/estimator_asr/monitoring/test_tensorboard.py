import contextlib
import io
import pathlib

import event_files
import numpy as np
import paths
import programs
import pytest
import soundfile
import tensorflow as tf

from estimator_asr.experiment import training_config
from estimator_asr.monitoring import tensorboard
from tfrecord_builder import errors


def test_values_made_outside_a_graph_are_written_at_their_step(tmp_path, graph):
    tensorboard.write_values(str(tmp_path), [tensorboard.text_value("a", "**b**")], 12)
    ((step, value),) = event_files.read_values(tmp_path)
    assert (step, value.tag, value.metadata.plugin_data.plugin_name) == (12, "a", "text")
    assert tf.make_ndarray(value.tensor).item() == b"**b**"


def test_an_image_value_has_the_size_of_the_png(session):
    png = session.run(tf.io.encode_png(np.zeros([5, 9, 3], np.uint8)))
    image = tensorboard.image_value("a", png).image
    assert (image.width, image.height, image.encoded_image_string) == (9, 5, png)


def test_an_audio_value_has_the_length_of_the_wav_file():
    file = io.BytesIO()
    soundfile.write(file, np.zeros(100), 8000, format="WAV", subtype="PCM_16")
    sound = tensorboard.audio_value("a", file.getvalue(), 8000).audio
    assert (sound.length_frames, sound.sample_rate, sound.num_channels) == (100, 8000, 1)


def read_histograms(model_dir):
    """Returns the count, minimum and maximum of each histogram, keyed by step and tag."""
    found = {}
    for step, value in event_files.read_values(model_dir):
        if value.HasField("histo"):
            found.setdefault(step, {})[value.tag] = value.histo.num, value.histo.min, value.histo.max
    return found


def run_histograms(model_dir, steps, pairs, num_steps):
    step = tf.compat.v1.train.get_or_create_global_step()
    hook = tensorboard.histogram_hook(pairs, steps, str(model_dir))
    assert not tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.SUMMARIES)
    advance = step.assign_add(1)
    with tf.compat.v1.train.SingularMonitoredSession([hook]) as session:
        for _ in range(num_steps):
            session.run(advance)


def make_variable():
    return tf.compat.v1.get_variable("scope/w", initializer=[1.0, 2.0, 4.0])


def test_weights_and_gradients_have_histograms_every_so_many_steps(tmp_path, graph):
    with tf.compat.v1.variable_scope("model"):
        run_histograms(tmp_path, 3, [(tf.constant([-1.0, 0.0, 0.5]), make_variable())], 7)
    expected = {"weights/model/scope/w": (3.0, 1.0, 4.0), "gradients/model/scope/w": (3.0, -1.0, 0.5)}
    assert read_histograms(tmp_path) == {1: expected, 4: expected, 7: expected}


def test_an_embedding_shows_the_rows_that_have_a_gradient_without_nan_and_inf(tmp_path, graph):
    rows = tf.IndexedSlices(tf.constant([5.0, float("nan"), float("inf")]), tf.constant([0, 1, 2]))
    run_histograms(tmp_path, 1, [(rows, make_variable())], 1)
    assert read_histograms(tmp_path)[1]["gradients/scope/w"] == (1.0, 5.0, 5.0)


@pytest.mark.slow
def test_under_replicas_there_is_one_histogram_of_their_sum(tmp_path):
    done = programs.run(paths.script("replica_programs.py"), "histograms", tmp_path)
    assert done.returncode == 0, done.stderr
    found = read_histograms(tmp_path)[1]
    assert found["gradients/scope/w"] == (3.0, 0.0, 2.0)  # 2 is the mean of the replicas' gradients 1 and 3
    assert found["weights/scope/w"][0] == 3.0 and len(found) == 2


@pytest.fixture
def profiled(monkeypatch):
    """Replaces TensorFlow's profiler; returns the list of calls: "start", numbers of steps, "stop"."""
    calls, profiler = [], tensorboard.tf.profiler.experimental

    @contextlib.contextmanager
    def trace(name, step_num, _r):
        calls.append(step_num)
        yield

    monkeypatch.setattr(profiler, "start", lambda directory: calls.append("start"))
    monkeypatch.setattr(profiler, "stop", lambda: calls.append("stop"))
    monkeypatch.setattr(profiler, "Trace", trace)
    return calls


def run(hook, first_step, num_steps):
    with tf.Graph().as_default():
        step = tf.compat.v1.train.create_global_step()
        scaffold = tf.compat.v1.train.Scaffold(init_op=step.assign(first_step))
        advance = step.assign_add(1)
        with tf.compat.v1.train.SingularMonitoredSession([hook], scaffold=scaffold) as session:
            for _ in range(num_steps):
                session.run(advance)


@pytest.mark.parametrize(
    "first_step, num_steps, calls",
    [
        (0, 8, ["start", 3, 4, 5, "stop"]),
        (0, 4, ["start", 3, 4, "stop"]),  # training ends inside the range
        (3, 4, ["start", 4, 5, "stop"]),  # training continues inside the range
        (5, 4, []),
        (0, 2, []),
    ],
)
def test_exactly_the_steps_of_the_range_are_profiled(profiled, first_step, num_steps, calls):
    run(tensorboard.ProfileHook(3, 5, "unused"), first_step, num_steps)
    assert profiled == calls


def test_the_profile_is_where_tensorboard_looks_and_has_the_ops_of_a_step(tmp_path):
    run(tensorboard.ProfileHook(1, 2, str(tmp_path)), 0, 3)
    (path,) = pathlib.Path(tmp_path).glob("plugins/profile/*/*.xplane.pb")
    content = path.read_bytes()
    assert b"AssignAddVariableOp" in content and b"train" in content


@pytest.mark.parametrize("steps", [(5,), (5, 4), (1, 2, 3)])
def test_an_invalid_range_of_steps_is_refused(steps):
    with pytest.raises(errors.UserError, match="--profile_steps is 5|--profile_steps is 1,2,3, expected"):
        training_config.DisplayConfig(profile_steps=steps)
    assert training_config.DisplayConfig(profile_steps=(5, 5)).profile_steps == (5, 5)
