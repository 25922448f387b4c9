import dataclasses
import os
import pathlib
import re

import built_data
import matplotlib.font_manager
import pytest

from tfrecord_builder import errors, show
from tfrecord_builder.building.verification import stored_records
from tfrecord_builder.data import dataset_info, manifest, vocabulary


def test_the_picture_of_the_first_record_is_written_to_the_working_directory(
    built, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    show.show(show.ShowConfig(data_dir=built))
    lines = capsys.readouterr().out.splitlines()
    name = lines[0].split()[-1]
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.png"]
    assert f"picture        {name}.png" in lines


def test_all_fields_of_a_record_are_printed(built, tmp_path, capsys):
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
    assert lines[10:13] == ["duration_ms    500", "num_frames     48", "fbank          float16 [48, 80]"]
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
        "picture: 今天天气很好 was omitted, because no font can show it; "
        "install a CJK font, for example: apt-get install fonts-noto-cjk (Debian, Ubuntu)"
    )
    assert output.exists()


def test_records_of_text_have_no_picture(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    show.show(show.ShowConfig(data_dir=built_data.make_text(tmp_path)))
    text = capsys.readouterr().out
    assert "transcript     " in text and "fbank" not in text and "picture" not in text
    assert not list(tmp_path.glob("*.png"))


def test_segment_and_channel_of_an_utterance_are_described():
    utterance = manifest.Utterance("u", "a.wav", "", "", "", "train")

    def described(**changes):
        return show._describe_part(dataclasses.replace(utterance, **changes))

    assert described() == ""
    assert described(start_seconds=1.5) == ", from 1.5 s"
    assert described(start_seconds=1.5, seconds=2.0, channel=0) == ", 1.5 to 3.5 s, channel 0"
    assert described(channel=1) == ", channel 1"


def test_the_picture_has_a_safe_file_name():
    assert show._file_name("A11_0-x.1") == "A11_0-x.1.png"
    assert show._file_name("合成04") == "合成04.png"
    # The hash is the start of `printf 'a/b' | sha256sum`.
    assert show._file_name("a/b") == "a_b-c14cddc0.png"
    assert re.fullmatch("_.._etc_一-[0-9a-f]{8}.png", show._file_name("../..//etc/\n一"))
    assert re.fullmatch("record-[0-9a-f]{8}.png", show._file_name(".."))
    for long in ("x" * 100_000, "合" * 500, "𠮷" * 500):
        assert 200 < len(os.fsencode(show._file_name(long))) <= 213
        assert show._file_name(long) != show._file_name(long + long[0])


def test_wrong_settings():
    with pytest.raises(errors.UserError, match="--data_dir is missing"):
        show.ShowConfig()
    with pytest.raises(errors.UserError, match="--output is a.jpg, expected a file name that ends in .png"):
        show.ShowConfig(data_dir="x", output="a.jpg")


def _find(data_dir, utterance_id=None):
    info = dataset_info.DatasetInfo.load(str(data_dir))
    tokens, characters = (
        vocabulary.Vocabulary.load(str(data_dir / name)) for name in ("tokens.txt", "characters.txt")
    )
    expected = stored_records.RecordSpec(tokens, characters, info.frontend, info.fbank_dtype)
    return show.find(str(data_dir), info, expected, utterance_id)


def test_without_an_id_the_first_record_of_train_is_found(data_dir):
    entry = _find(data_dir)
    first = built_data.read(data_dir / "train-00000-of-00003.tfrecord")[0]
    assert entry.record.utterance_id == stored_records.utterance_id(first)
    assert (entry.split, entry.number) == ("train", 0)
    assert entry.shard == str(data_dir / "train-00000-of-00003.tfrecord")


@pytest.mark.parametrize("with_items", [True, False])
def test_every_record_is_found_by_its_id(data_dir, with_items):
    if not with_items:
        for path in data_dir.glob("*.jsonl"):
            path.unlink()
    for i in range(15):
        entry = _find(data_dir, f"u{i:02d}")
        assert entry.record.utterance_id == f"u{i:02d}"
        assert entry.split == ("train" if i < 12 else "dev")
        assert bool(entry.utterance) == with_items
        if with_items:
            assert os.path.basename(entry.utterance.audio) == f"u{i:02d}.wav"


def test_an_unknown_id_is_an_error(data_dir):
    message = "--utterance_id: .* has no record with the id u0; pass another id, or leave"
    with pytest.raises(errors.UserError, match=message):
        _find(data_dir, "u0")


def test_the_error_for_a_rejected_utterance_has_its_reason(data_dir):
    rows = ["utterance_id\tsplit\treason\trecording", "u77\ttrain\tsilent audio\t/in/u77.wav"]
    (data_dir / "rejected.tsv").write_text("\n".join(rows))
    message = r"u77 has no record, because .* rejected \(silent audio\); .*rejected.tsv"
    with pytest.raises(errors.UserError, match=message):
        _find(data_dir, "u77")
    os.remove(data_dir / "rejected.tsv")
    with pytest.raises(errors.UserError, match="has no record with the id u77;"):
        _find(data_dir, "u77")


def test_the_error_for_a_missing_shard_names_it(data_dir):
    os.remove(data_dir / "train-00000-of-00003.tfrecord")
    with pytest.raises(errors.UserError, match="train-00000-of-00003.tfrecord: shard is missing"):
        _find(data_dir)


def test_the_error_for_a_damaged_record_names_it(data_dir):
    path = data_dir / "train-00000-of-00003.tfrecord"
    content = bytearray(path.read_bytes())
    content[5000] ^= 1
    path.write_bytes(content)
    with pytest.raises(errors.UserError, match="record 0 at byte 0 is damaged: CRC of its data is .*verify"):
        _find(data_dir)
    built_data.rewrite(str(data_dir), path.name, [b"\xff\xff"])
    with pytest.raises(errors.UserError, match="record 0 at byte 0 is damaged: not a tf.train.Example. Run"):
        _find(data_dir)


def test_a_record_with_a_damaged_id_is_not_reported_as_missing(data_dir):
    path = data_dir / "train-00000-of-00003.tfrecord"
    name = stored_records.utterance_id(built_data.read(path)[0])
    content = bytearray(path.read_bytes())
    content[12] ^= 255  # the record can no longer be parsed
    path.write_bytes(content)
    with pytest.raises(errors.UserError, match="record 0 at byte 0 is damaged: CRC of its data is .*verify"):
        _find(data_dir, name)
    (data_dir / "rejected.tsv").write_text(f"utterance_id\tsplit\treason\n{name}\ttrain\tsilent audio\n")
    with pytest.raises(errors.UserError, match=f"{name} has no record, .* was rejected \\(silent audio"):
        _find(data_dir, name)


def test_data_without_records_are_an_error(data_dir):
    for path in data_dir.glob("*.tfrecord"):
        built_data.rewrite(str(data_dir), path.name, [])
    with pytest.raises(errors.UserError, match="data contains no records; build"):
        _find(data_dir)
