import dataclasses
import os
import stat

import built_data
import programs
import pytest
import small_records

from estimator_asr import train_ngram
from estimator_asr.decoding.ngrams import arpa
from tfrecord_builder import errors
from tfrecord_builder.storage import locks


@pytest.fixture(scope="module")
def text_dir(tmp_path_factory):
    """Text with three training sentences (ni3 hao3, xie4 xie5, hao4) and one dev sentence."""
    return built_data.make_text(tmp_path_factory.mktemp("text"))


@pytest.mark.long
def test_the_program_writes_a_model_of_tokens(text_dir, tmp_path):
    path = tmp_path / "tokens.arpa.gz"
    flags = [f"--data_dir={text_dir}", "--order=2", f"--output_file={path}"]
    done = programs.run("estimator_asr.train_ngram", *flags)
    assert done.returncode == 0, done.stderr
    fixed = "discounts 0.500, 1.000, 1.500 (defaults: the text is too small or too regular to estimate them)"
    assert done.stdout.splitlines() == [
        f"1-grams: kept 8 of 8, {fixed}",
        f"2-grams: kept 8 of 8, {fixed}",
        f"{path}: 0.0 MB",
    ]
    made = arpa.read(str(path))
    assert made.words == ("<unk>", "<s>", "</s>", "hao3", "hao4", "ni3", "xie4", "xie5")
    assert {tuple(made.words[index] for index in row) for row in made.orders[1].words} == {
        *{("<s>", "ni3"), ("ni3", "hao3"), ("hao3", "</s>"), ("<s>", "xie4")},
        *{("xie4", "xie5"), ("xie5", "</s>"), ("<s>", "hao4"), ("hao4", "</s>")},
    }


def test_characters_of_transcripts(text_dir, tmp_path):
    path = str(tmp_path / "characters.arpa")
    train_ngram.train(train_ngram.TrainNgramConfig((text_dir,), path, order=2, unit="character"))
    assert arpa.read(path).words == ("<unk>", "<s>", "</s>", "你", "好", "谢")


def test_white_space_of_transcripts_is_left_out(tmp_path):
    def space(record):
        return dataclasses.replace(record, transcript=" ".join(record.transcript) + "\u3000")

    small_records.make_data(str(tmp_path / "data"), change=space, with_audio=False)
    sentences = list(train_ngram.read_sentences([str(tmp_path / "data")], "character"))
    assert sorted(set().union(*sentences)) == ["你", "吗", "好", "是"]


def test_speech_and_text_are_joined_and_duplicates_count(text_dir, tmp_path):
    data_dir = str(tmp_path / "data")
    small_records.make_data(data_dir)
    sentences = list(train_ngram.read_sentences([text_dir, data_dir], "token"))
    assert len(sentences) == 3 + 12
    assert sentences.count(["ni3", "hao3"]) == 1 and sentences.count(["hao3"]) == 1
    assert sum(map(len, sentences)) == 2 + 2 + 1 + 4 * (1 + 2 + 3)


def test_a_pipe_is_refused_before_anything_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    config = train_ngram.TrainNgramConfig(("no such data",), str(tmp_path / "pipe"))
    with pytest.raises(errors.UserError, match="pipe exists and is not a regular file; choose another path"):
        train_ngram.train(config)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_second_run_with_one_output_file_is_refused(text_dir, tmp_path):
    path, link = tmp_path / "a.arpa", tmp_path / "link.arpa"
    path.write_text("older"), link.symlink_to(path)
    with locks.exclusive(f"{path}.lock", ""), pytest.raises(errors.UserError) as raised:
        train_ngram.train(train_ngram.TrainNgramConfig((text_dir,), str(link)))
    assert str(raised.value) == (
        f"--output_file: another train_ngram is writing {path}; wait until it ends, or choose another file"
    )
    assert path.read_text() == "older"
    train_ngram.train(train_ngram.TrainNgramConfig((text_dir,), str(link)))
    assert sorted(os.listdir(tmp_path)) == ["a.arpa", "link.arpa"] and len(path.read_text()) > 100


def test_augmented_copies_are_not_counted(text_dir, tmp_path):
    """If copies counted, no n-gram would occur only once, and the discounts could not be estimated."""

    def copy(record):
        name = record.utterance_id
        changed = dataclasses.replace(record, utterance_id=f"{name[:-1]}0~speed0.9~noise-{name}")
        return record if name.endswith("0") else changed

    data_dir = str(tmp_path / "data")
    small_records.make_data(data_dir, splits=[("train", 12)], change=copy)
    assert (
        len(list(train_ngram.read_sentences([data_dir], "token"))) == 2
    )  # utterances 000 and 010 are no copies
    assert len(list(train_ngram.read_sentences([text_dir, data_dir], "character"))) == 3 + 2


def test_wordless_copies_are_not_counted(tmp_path):
    def copy(record):
        return small_records.without_words(record) if int(record.utterance_id[-3:]) % 2 else record

    data_dir = str(tmp_path / "data")
    small_records.make_data(data_dir, splits=[("train", 12)], change=copy)
    sentences = list(train_ngram.read_sentences([data_dir], "token"))
    assert len(sentences) == 6 and all(sentences)


@pytest.mark.parametrize(
    "ids, num_sentences",
    [
        # --speed_perturb_factors=0.9,1.1 leaves out the original utterances.
        ([f"u{i // 2}~speed{(0.9, 1.1)[i % 2]}" for i in range(12)], 6),
        ([f"a~{i}" for i in range(12)], 12),  # a tilde in the name does not make an utterance a copy
    ],
)
def test_copies_of_utterances_that_are_left_out_count_once(tmp_path, ids, num_sentences):
    names, data_dir = iter(ids), str(tmp_path / "data")

    def rename(record):
        return dataclasses.replace(record, utterance_id=next(names))

    small_records.make_data(data_dir, splits=[("train", 12)], change=rename)
    assert len(list(train_ngram.read_sentences([data_dir], "token"))) == num_sentences


def test_directories_of_other_token_types_are_refused_unless_characters_count(text_dir, tmp_path):
    data_dir = str(tmp_path / "data")
    info = small_records.make_data(data_dir)
    dataclasses.replace(info, token_type="toneless").save(data_dir)
    said = "data: token types are syllable and toneless, expected a single type; build all data with"
    with pytest.raises(errors.UserError, match=said):
        list(train_ngram.read_sentences([text_dir, data_dir], "token"))
    assert len(list(train_ngram.read_sentences([text_dir, data_dir], "character"))) == 15


def test_data_without_a_train_split_is_refused(tmp_path):
    data_dir = str(tmp_path / "data")
    small_records.make_data(data_dir, splits=(("dev", 2),))
    with pytest.raises(errors.UserError, match="data: split 'train' does not exist; existing splits: dev"):
        train_ngram.train(train_ngram.TrainNgramConfig((data_dir,), str(tmp_path / "x.arpa")))


def test_a_missing_directory_is_found_before_the_data_is_read(tmp_path):
    config = train_ngram.TrainNgramConfig(("no",), str(tmp_path / "models" / "x.arpa"))
    with pytest.raises(errors.UserError, match="models does not exist; create it, or choose another file"):
        train_ngram.train(config)


@pytest.mark.parametrize(
    "flags, said",
    [
        ({"data_dir": ()}, "--data_dir is missing; pass it"),
        ({"output_file": ""}, "--output_file is missing; pass it"),
        ({"order": 0}, "flag --order=0: expected at least 1 and at most 6"),
        ({"unit": "word"}, "flag --unit=word: expected one of token, character"),
        ({"prune": (-1,)}, "flag --prune=-1: expected at least 0"),
        (
            {"prune": ()},
            "the values of --prune= must begin with 0 and must not decrease; pass, for example, ",
        ),
        ({"prune": (1, 1)}, "the values of --prune=1,1 must begin with 0 and must not decrease"),
        ({"prune": (0, 2, 1)}, "the values of --prune=0,2,1 must begin with 0 and must not decrease"),
    ],
)
def test_invalid_settings_are_refused(flags, said):
    with pytest.raises(errors.UserError, match=said):
        train_ngram.TrainNgramConfig(**{"data_dir": ("data",), "output_file": "x.arpa", **flags})


def test_a_directory_that_is_passed_twice_is_refused(text_dir):
    with pytest.raises(errors.UserError, match="has duplicates .*; pass each directory only once"):
        list(train_ngram.read_sentences([text_dir, text_dir], "token"))
