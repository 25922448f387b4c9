import json
import os

import numpy as np
import pytest
import small_augmentation
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.augmentation import sources


def test_sources_are_sorted_by_name_with_length_and_stamp(folders):
    found = small_augmentation.find_sources(**folders)
    assert [each.name for each in found.rirs] == ["far/my room (2).wav", "hall1.wav"]
    assert [(each.name, each.seconds) for each in found.noises] == [("cafe.wav", 3.0), ("street.flac", 0.5)]
    path = os.path.join(folders["noise_dir"], "cafe.wav")
    assert found.noises[0].path == path
    status = os.stat(path)
    assert found.noises[0].signature == (status.st_size, status.st_mtime_ns)
    assert small_augmentation.find_sources() == sources.Sources()


def test_description_changes_with_names_and_contents(folders):
    described = [small_augmentation.find_sources(**folders).describe()]
    path = os.path.join(folders["noise_dir"], "cafe.wav")
    small_corpora.write_audio(path, small_augmentation.noise(2 * small_corpora.SAMPLE_RATE))
    described.append(small_augmentation.find_sources(**folders).describe())
    os.rename(path, os.path.join(folders["noise_dir"], "bar.wav"))
    described.append(small_augmentation.find_sources(**folders).describe())
    texts = [json.dumps(each) for each in described]
    assert len(set(texts)) == 3
    assert json.loads(texts[0])[0][1][0] == "hall1.wav"


def test_a_relative_folder_gives_absolute_paths(folders, monkeypatch):
    monkeypatch.chdir(os.path.dirname(folders["noise_dir"]))
    (cafe, _) = small_augmentation.find_sources(noise_dir="noises/").noises
    assert (cafe.path, cafe.name) == (os.path.join(folders["noise_dir"], "cafe.wav"), "cafe.wav")


def test_folders_that_cannot_be_used_are_refused(folders, tmp_path):
    def refused(rir_dir="", noise_dir=""):
        with pytest.raises(errors.UserError) as caught:
            small_augmentation.find_sources(rir_dir=rir_dir, noise_dir=noise_dir)
        return str(caught.value)

    missing, empty = str(tmp_path / "missing"), tmp_path / "empty"
    assert refused(missing) == (f"--rir_dir: {missing} is not a directory; choose one of audio files.")
    empty.mkdir()
    assert refused(noise_dir=str(empty)) == (
        f"--noise_dir: {empty} has no audio, expected .wav, .flac, .ogg, .mp3; choose another directory."
    )
    path = small_corpora.write_text(empty / "a.WAV", "no audio")
    assert refused(noise_dir=str(empty)) == (
        f"--noise_dir: {path} cannot be read (Format not recognised); copy it again or remove it."
    )
    small_corpora.write_audio(path, np.zeros(0, np.float32))
    assert refused(noise_dir=str(empty)) == (
        f"--noise_dir: {path} has 0 s of audio, expected a known duration; remove it from the directory."
    )
    small_corpora.write_audio(path, small_augmentation.noise(11 * small_corpora.SAMPLE_RATE))
    assert refused(str(empty)) == (
        f"--rir_dir: {path} has 11 s of audio, expected at most 10 s; remove it from the directory."
    )
    os.remove(path)
    os.symlink(empty / "nowhere", path)
    assert f"{path} cannot be read (No such file or directory)" in refused(str(empty))
