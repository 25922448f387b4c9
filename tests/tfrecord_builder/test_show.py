import dataclasses
import pathlib
import re

import built_data
import matplotlib.font_manager
import pytest

from tfrecord_builder import errors, show
from tfrecord_builder.data import manifest
from tfrecord_builder.tokens import vocabulary


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return built_data.make(tmp_path_factory.mktemp("built"), 6, 3)


def test_the_first_record_is_drawn_in_the_working_directory(built, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    show.show(show.ShowConfig(data_dir=built))
    lines = capsys.readouterr().out.splitlines()
    name = lines[0].split()[-1]
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.png"]
    assert f"picture        {name}.png" in lines


def test_all_fields_of_a_record(built, tmp_path, capsys):
    output = tmp_path / "picture.png"
    show.show(show.ShowConfig(data_dir=built, utterance_id="u02", output=str(output)))
    lines = capsys.readouterr().out.splitlines()
    audio = pathlib.Path(built).parent / "corpus" / "audio" / "u02.wav"
    assert lines[0] == "utterance_id   u02"
    assert lines[1].startswith("split          train, record ")
    assert lines[2:6] == [
        f"audio          {audio}",
        "speaker        a",
        "transcript     今天天气很好",
        "pronunciation  jin1 tian1 tian1 qi4 hen3 hao3",
    ]
    assert lines[7] == lines[9] == "               (6, 0 unknown)"
    assert lines[6].startswith("token_ids      ") and len(lines[6].split()) == 7
    assert lines[10:13] == [
        "duration_ms    500",
        "num_frames     48",
        "fbank          float16 [48, 80]",
    ]
    assert re.fullmatch(r" +min -?[0-9.]+, mean -?[0-9.]+, max -?[0-9.]+", lines[13])
    assert lines[14] == f"picture        {output}"
    assert output.read_bytes()[:4] == b"\x89PNG"


def test_unknown_labels_are_counted():
    known = vocabulary.Vocabulary(["<unk>", "a", "b"])
    assert show._describe_ids("token_ids", [0, 1, 0, 2], known)[1].strip() == "(4, 2 unknown)"


def test_without_a_cjk_font_a_line_says_how_to_install_one(built, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(matplotlib.font_manager, "get_font_names", lambda: ["DejaVu Sans"])
    output = tmp_path / "a.png"
    show.show(show.ShowConfig(data_dir=built, utterance_id="u02", output=str(output)))
    assert capsys.readouterr().out.splitlines()[-1] == (
        "picture: no installed font has 今天天气很好, it was omitted; "
        "install a CJK font, for example: apt-get install fonts-noto-cjk (Debian, Ubuntu)"
    )
    assert output.exists()


def test_text_has_no_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    show.show(show.ShowConfig(data_dir=built_data.make_text(tmp_path)))
    text = capsys.readouterr().out
    assert "transcript     " in text and "fbank" not in text and "picture" not in text
    assert not list(tmp_path.glob("*.png"))


def test_segment_and_channel_of_an_utterance():
    utterance = manifest.Utterance("u", "a.wav", "", "", "", "train")

    def described(**changes):
        return show._describe_part(dataclasses.replace(utterance, **changes))

    assert described() == ""
    assert described(start_seconds=1.5) == ", from 1.5 s"
    assert described(start_seconds=1.5, seconds=2.0, channel=0) == ", 1.5 to 3.5 s, channel 0"
    assert described(channel=1) == ", channel 1"


def test_the_name_of_the_picture_is_safe():
    assert show._file_name("A11_0-x.1") == "A11_0-x.1.png"
    assert show._file_name("../..//etc/\n一") == "_.._etc_.png"
    assert show._file_name("..") == "record.png"
    assert len(show._file_name("x" * 500)) == 104


def test_wrong_settings():
    with pytest.raises(errors.UserError, match="--data_dir is missing"):
        show.ShowConfig()
    with pytest.raises(errors.UserError, match="--output: file is a.jpg, expected a name that ends in .png"):
        show.ShowConfig(data_dir="x", output="a.jpg")
