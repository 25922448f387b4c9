"""Runs the pages' JavaScript code that mixes channels, in Node."""

import json
import shutil
import subprocess

import paths
import pytest

PROGRAM = """
import(process.argv[1]).then(({ mix }) => {
  const channels = JSON.parse(process.argv[2]).map((each) => Float32Array.from(each));
  const buffer = { numberOfChannels: channels.length, getChannelData: (i) => channels[i] };
  console.log(JSON.stringify(Array.from(mix(buffer))));
});
"""


@pytest.mark.parametrize(
    ("channels", "mixed"),
    [
        ([[0.5, -0.25]], [0.5, -0.25]),
        ([[0.5, -0.25], [0.25, 0.5]], [0.375, 0.125]),
        ([[0.5, -0.25], [-0.5, 0.25]], [0.5, -0.25]),
        ([[0.5, -0.25], [-0.375, 0.1875]], [0.0625, -0.03125]),
        ([[0, 0], [0.5, -0.25], [-0.5, 0.25]], [0.5, -0.25]),
    ],
)
def test_channels_that_cancel_each_other(channels, mixed, tmp_path):
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    shutil.copy(paths.ROOT / "estimator_asr_runtime/web/shared/audio.js", tmp_path / "audio.mjs")
    command = ["node", "-e", PROGRAM, str(tmp_path / "audio.mjs"), json.dumps(channels)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(found.stdout) == mixed
