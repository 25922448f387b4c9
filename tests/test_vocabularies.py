import pytest

from tfrecord_builder import errors, labels, vocabularies

TRAINING = (
    labels.Labels("你好", ("ni3", "hao3"), ("你", "好")),
    labels.Labels("花儿", ("huar1",), ()),
    labels.Labels("ok", ("o", "k"), ("o", "k")),
)


def test_hold_everything_of_the_training_split():
    made = vocabularies.make(TRAINING)
    assert made.tokens.tokens == ("<unk>", "hao3", "huar1", "k", "ni3", "o")
    assert made.characters.tokens == ("<unk>", "k", "o", "你", "好")


def test_readings_are_training_pairs_and_the_dictionary():
    heard = labels.Labels("一好", ("yi2", "hao3"), ("一", "好"))
    pairs = vocabularies.make([heard, *TRAINING]).readings.pairs
    assert pairs["yi2"] == pairs["yi1"] == "一"
    assert pairs["hao3"] == pairs["hao4"] == "好"  # hao4 is in no label
    assert pairs["o"] == "o"
    assert "huar1" not in pairs


def test_save_writes_what_a_later_build_takes_over(tmp_path):
    first = vocabularies.make(TRAINING)
    first.save(str(tmp_path))
    second = vocabularies.make([labels.Labels("再", ("zai4",), ("再",))], directory=str(tmp_path))
    assert second.tokens.sha256 == first.tokens.sha256
    assert second.characters.sha256 == first.characters.sha256
    assert second.readings.sha256 == first.readings.sha256


def test_frozen_tokens_alone_leave_characters_to_the_training_split(tmp_path):
    vocabularies.make(TRAINING).tokens.save(str(tmp_path / "frozen.txt"))
    made = vocabularies.make(
        [labels.Labels("再", ("zai4",), ("再",))], tokens_file=str(tmp_path / "frozen.txt")
    )
    assert "zai4" not in made.tokens.tokens
    assert made.characters.tokens == ("<unk>", "再")


def test_a_directory_may_hold_tokens_alone(tmp_path):
    vocabularies.make(TRAINING).tokens.save(str(tmp_path / "tokens.txt"))
    assert vocabularies.make([], directory=str(tmp_path)).characters.tokens == ("<unk>",)


def test_refuses():
    with pytest.raises(errors.UserError, match="no usable train split.*--vocabulary_dir"):
        vocabularies.make([])
    with pytest.raises(errors.UserError, match="none.txt"):
        vocabularies.make(TRAINING, tokens_file="none.txt")
    with pytest.raises(errors.UserError, match="nowhere/tokens.txt"):
        vocabularies.make(TRAINING, directory="nowhere")


@pytest.mark.parametrize("file", ["dataset_info.json", "config.json"])
def test_unit_of_a_frozen_vocabulary(tmp_path, file):
    vocabularies.check_unit(str(tmp_path), "syllable")  # it says nothing, so nothing can be checked
    (tmp_path / file).write_text('{"unit": "character"}')
    vocabularies.check_unit(str(tmp_path), "character")
    message = (
        f"--vocabulary_dir: .*/{file}: unit is character, expected syllable, .*; pass --unit=character, or"
    )
    with pytest.raises(errors.UserError, match=message):
        vocabularies.check_unit(str(tmp_path), "syllable")


@pytest.mark.parametrize("content", ["{", "[1]", "{}", "1"])
def test_a_directory_that_does_not_say_its_unit(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(
        errors.UserError, match="config.json: it cannot be read .*, expected JSON with the key unit"
    ):
        vocabularies.check_unit(str(tmp_path), "syllable")
