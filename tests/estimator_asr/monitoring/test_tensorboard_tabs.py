"""A browser shows each tab of TensorBoard after a training run of the train program."""

import pathlib
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import browser
import numpy as np
import programs
import pytest
import small_records
import soundfile
import tiny_flags

from tfrecord_builder.building import sharding
from tfrecord_builder.data import dataset_info, manifest, recordings
from tfrecord_builder.labels import labelling

TINY = [
    *(*tiny_flags.ACOUSTIC, "--batch_frames=200", "--warmup_epochs=0", "--train_steps=12"),
    *("--save_summary_steps=4", "--histogram_steps=4", "--profile_steps=4,6", "--show_utterances=2"),
    *("--notry_worst_batch", "--nowatchdog"),
]
SECONDS = 180
_FRAME = """(function frame(node) {
  if (node.nodeName === 'IFRAME') return node;
  const parts = [...(node.shadowRoot ? node.shadowRoot.childNodes : []), ...node.childNodes];
  return parts.map(frame).find((each) => each) || null;
})(document.body)"""
_NO_CHARTS = "{charts: {load() { return Promise.resolve(); }, safeLoad() {}, setOnLoadCallback() {}}}"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        browser.find() is None, reason="no chromium or google-chrome is installed: apt-get install chromium"
    ),
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A directory of runs with one trained model directory."""
    path = tmp_path_factory.mktemp("tabs")
    small_records.make_data(str(path / "data"), num_shards=1)
    _write_recordings(path)
    where = (f"--data_dir={path / 'data'}", f"--model_dir={path / 'runs' / 'am'}")
    run = programs.run("estimator_asr.train", *TINY, *where)
    assert run.returncode == 0, run.stderr
    return path / "runs"


def _write_recordings(path):
    """Writes a silent recording, and lists it as the recording of each utterance in dev."""
    info = dataset_info.DatasetInfo.load(str(path / "data"))
    (shard,) = info.shard_paths(str(path / "data"), "dev")
    soundfile.write(path / "a.wav", np.zeros(4000), 16000)
    utterances = (manifest.Utterance(f"dev{i:03d}", str(path / "a.wav"), "", "", "", "dev") for i in range(3))
    items = (sharding.LabelledUtterance(each, labelling.Labels("", (), ())) for each in utterances)
    lines = "".join(map(sharding.to_line, items))
    pathlib.Path(recordings.path_of(shard)).write_text(lines, encoding="utf-8")


@pytest.fixture(scope="module")
def tensorboard(directory):
    """The address of a TensorBoard process that shows the directory."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tensorboard.main", f"--logdir={directory}", f"--port={port}"]
    with open(directory.parent / "tensorboard.log", "w") as log:
        process = subprocess.Popen([*command, "--host=127.0.0.1"], stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def page(tensorboard):
    with browser.Browser(browser.find()) as page:
        page.wait(lambda: _answers(tensorboard), SECONDS)
        yield page


def _answers(address):
    """Returns True if TensorBoard is running and has read both runs."""
    try:
        with urllib.request.urlopen(f"{address}data/runs", timeout=5) as answer:
            return b"am/eval" in answer.read()
    except (urllib.error.URLError, OSError):
        return False


def open_tab(page, tensorboard, tab, *words):
    """Opens a tab; returns its text as soon as it contains all of the words."""
    page.open(f"{tensorboard}#{tab}")
    return page.wait(lambda: _text_with(page, words), SECONDS)


def _text_with(page, words):
    text = page.text()
    return text if all(word in text for word in words) else None


def test_scalars_of_training_and_dev_are_in_one_chart(page, tensorboard):
    open_tab(page, tensorboard, "scalars", "token-error-rate", "learning-rate", "blank-fraction", "am/eval")


def test_pictures_of_dev_utterances_are_drawn(page, tensorboard):
    open_tab(page, tensorboard, "images", "dev/dev0", "/picture", "step 12")
    widths = page.wait(lambda: _two_widths(page, "img", "individualImage"), SECONDS)
    assert min(widths) == 5 * 80  # minimum width of a picture


def _two_widths(page, name, source):
    """Returns the widths of the elements with that source if there are two and both are loaded, or None."""
    found = [width for width, _, src in page.elements(name) if source in src]
    return found if len(found) == 2 and min(found) > 0 else None


def test_reference_and_hypothesis_are_compared(page, tensorboard):
    text = open_tab(page, tensorboard, "text", "reference", "hypothesis", "wrong of")
    assert re.search(r"dev/dev\d+/text", text) and re.search(r"\b(hao3|ma5|ni3|shi4)\b", text)


def test_recordings_can_be_heard(page, tensorboard):
    open_tab(page, tensorboard, "audio", "/sound")
    assert page.wait(lambda: _two_widths(page, "audio", "individualAudio"), SECONDS)


def test_settings_are_shown_with_the_metrics_on_dev(page, tensorboard):
    words = ["Trial ID", "dev token-error-rate", "dev avg-loss", "200.00", "conformer"]
    text = open_tab(page, tensorboard, "hparams", *words)
    table = text[text.index("Trial ID") :]
    columns = ["batch_frames", "encoder", "encoder_layers", "encoder_units", "learning_rate"]
    assert re.search(" ".join(columns) + " dev token-error-rate", table), table
    assert re.search(r"am 200\.0* conformer 1\.0* 16\.0* 0\.0010* \d", table), table


def test_weights_and_gradients_have_histograms(page, tensorboard):
    open_tab(page, tensorboard, "histograms", "gradients", "weights", "acoustic/ctc/bias")


def test_the_profile_is_where_its_tab_looks(directory):
    (profile,) = (directory / "am").glob("plugins/profile/*/*.xplane.pb")
    assert profile.stat().st_size > 1000


def test_the_profile_tab_shows_the_time_of_a_step(page, tensorboard):
    pytest.importorskip("tensorboard_plugin_profile", reason="the extra 'profile' is not installed")
    page.open(f"{tensorboard}#profile")
    page.wait(lambda: page.run(f"typeof {_FRAME}?.contentWindow?.loadBundle === 'function'"), SECONDS)
    # The tab loads its charts from Google, and would wait for them forever without a network.
    page.run(f"{_FRAME}.contentWindow.google = {_NO_CHARTS}; {_FRAME}.contentWindow.loadBundle()")
    text = page.wait(lambda: _text_with(page, ["Average Step Time", "tensorflow_stats", "am/2"]), SECONDS)
    assert re.search(r"Average Step Time .*? [1-9]\d*\.\d ms", text), text
