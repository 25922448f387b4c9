"""Audio read through manifests that Lhotse has written equals the audio that Lhotse loads."""

import importlib.util
import json
import subprocess
import sys

import numpy as np
import paths
import pytest

from tfrecord_builder.audio.augmentation import copies, effects
from tfrecord_builder.building import shard_writer
from tfrecord_builder.corpora import lhotse

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("lhotse") is None, reason="needs PyTorch, see requirements-dev.txt"
    ),
]
RATE = 16000


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Manifests and audio, written in a separate process because Lhotse loads PyTorch."""
    directory = tmp_path_factory.mktemp("lhotse") / "written"
    directory.mkdir()
    script = paths.script("written_by_lhotse.py")
    subprocess.run([sys.executable, str(script), str(directory)], check=True, timeout=300)
    return directory


def _list(directory):
    return {u.utterance_id: u for u in lhotse.list_utterances(str(directory))}


def _check_sounds(found, expected):
    """Compares samples; if the speed is changed, the two resamplers differ slightly."""
    waveform = shard_writer.read_waveform(found, RATE, max_seconds=10.0)
    waveform = effects.apply(waveform, RATE, copies.Variant(speed=found.speed, volume_db=found.volume_db))
    assert len(waveform) == pytest.approx(len(expected), abs=2)
    size, edge = min(len(waveform), len(expected)), 0 if found.speed == 1 else 100
    difference = np.abs(waveform[:size] - expected[:size])[edge : size - edge]
    peak = np.abs(expected).max()
    assert difference.max() < (1e-5 if found.speed == 1 else 0.02) * peak, found.utterance_id


def test_audio_of_cuts_equals_that_of_lhotse(written):
    found = _list(written / "cuts")
    with np.load(written / "audio.npz") as expected:
        names = (
            "plain right both plain_sp0.9 plain_vp0.125 fast-loud part slow-part turns-x turns-y sides-l "
            "sides-r padded low piped"
        )
        assert [name for name, each in found.items() if not each.problem] == names.split()
        for name in names.split():
            _check_sounds(found[name], expected[name])
    assert (found["turns-y"].text, found["plain_sp0.9"].speaker) == ("谢谢", "s1")


def test_unsupported_cuts_are_rejected_with_a_reason(written):
    assert {name: each.problem for name, each in _list(written / "cuts").items() if each.problem} == {
        "mixed": "Lhotse MixedCut of several sounds (supported: MonoCut, MultiCut, padded cuts)",
        "tempo": "Lhotse transform 'Tempo' (supported: Speed, Volume, Resample)",
        "room": "Lhotse transform 'ReverbWithImpulseResponse' (supported: Speed, Volume, Resample)",
        "some": "Lhotse cut selects several but not all channels in a file (supported: one or all)",
        "command": "Lhotse audio source of type 'command' "
        "(supported: a file or a command that only decodes one)",
        "half": "Lhotse supervision is not within its cut, or has invalid times",
    }


def test_a_json_list_reads_as_the_lines(written):
    assert json.loads((written / "list" / "cuts.json").read_text(encoding="utf-8"))[0]["id"] == "plain"
    lines, listed = _list(written / "cuts"), _list(written / "list")
    assert {name: (u.audio, u.start_seconds, u.speed) for name, u in lines.items() if not u.problem} == {
        name: (u.audio, u.start_seconds, u.speed) for name, u in listed.items() if not u.problem
    }


def test_audio_of_recordings_with_supervisions_equals_that_of_lhotse(written):
    found = _list(written / "pairs")
    names = ("m-1", "s-1", "s-2")
    splits = {**dict.fromkeys(names, "dev"), **{f"{name}_sp0.9": "train" for name in names}}
    assert {name: each.split for name, each in found.items()} == splits
    with np.load(written / "audio.npz") as expected:
        for name, each in found.items():
            assert each.problem == ""
            _check_sounds(each, expected[name])
