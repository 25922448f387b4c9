import os
import pathlib

from tfrecord_builder.corpora import tables
from tfrecord_builder.data import manifest


def test_write_and_read_round_trip(tmp_path):
    audio = str(tmp_path / "audio" / "u1.wav")
    utterances = [
        manifest.Utterance("u1", audio, "s", "你 好", "ni3 hao3", "test"),
        manifest.Utterance("u2", audio, "s", "", "hao3", "train", 1.5, 2.25),
        manifest.Utterance("u3", audio, "s", "好", "", "train", 3.75),
    ]
    path = str(tmp_path / "manifest.tsv")
    manifest.write_manifest(path, utterances)
    assert list(tables.list_manifest(str(tmp_path))) == utterances
    assert "\taudio" + os.sep + "u1.wav\t" in pathlib.Path(path).read_text(encoding="utf-8")


def test_audio_paths_are_right_behind_a_symbolic_link(tmp_path):
    (tmp_path / "disk" / "corpus").mkdir(parents=True)
    (tmp_path / "corpus").symlink_to(tmp_path / "disk" / "corpus")
    (tmp_path / "audio").mkdir()
    (tmp_path / "audio" / "u1.wav").touch()
    inside, outside = str(tmp_path / "corpus" / "wav" / "u2.wav"), str(tmp_path / "audio" / "u1.wav")
    utterances = [manifest.Utterance(path[-6:-4], path, "s", "好", "", "train") for path in (outside, inside)]
    manifest.write_manifest(str(tmp_path / "corpus" / "manifest.tsv"), utterances)
    first, second = tables.list_manifest(str(tmp_path / "corpus"))
    assert os.path.samefile(first.audio, outside)
    assert second.audio == inside  # the manifest has a relative path
