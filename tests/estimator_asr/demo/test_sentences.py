"""The sentences of the full demo, and their files."""

import math
import subprocess
import sys

import built_data
import pytest

from estimator_asr.demo import grammar, sentences
from tfrecord_builder import errors
from tfrecord_builder.corpora import registry
from tfrecord_builder.data import dataset_info, marks, schema

SMALL = {"num_train": 60, "num_dev": 2, "num_test": 2, "num_text_sentences": 80, "min_occurrences": 1}


def run(name, *flags):
    subprocess.run([sys.executable, "-m", f"tfrecord_builder.{name}", *flags], check=True)


def sample(**settings):
    return sentences.sample(sentences.SentencesConfig(output_dir="sentences", **settings))


@pytest.fixture(scope="module")
def sampled():
    return sample()


def _readings(chosen):
    return {pair for sentence in chosen for word in sentence for pair in zip(word, grammar.read(word))}


def test_sets_have_the_documented_sizes_by_default(sampled):
    spoken, _ = sampled
    sizes = [{split: len(chosen) for split, chosen in sample.items()} for sample in sampled]
    assert sizes == [{"train": 3600, "dev": 80, "test": 120}, {"train": 6000, "dev": 80, "test": 120}]
    assert 3600 > len(set(spoken["train"])) >= 400


@pytest.mark.parametrize("split, other", [("test", "train"), ("test", "dev"), ("dev", "train")])
def test_held_out_sentences_are_unseen(sampled, split, other):
    for by_split in sampled:
        assert not {"".join(s) for s in by_split[split]} & {"".join(s) for s in by_split[other]}


@pytest.mark.parametrize("split", ["dev", "test"])
def test_train_contains_every_reading_of_the_held_out_sentences(sampled, split):
    spoken, written = sampled
    assert len(set(spoken[split])) == len(spoken[split])
    assert _readings(spoken[split]) <= _readings(spoken["train"])
    assert set(spoken[split]) == set(written[split])


def test_text_has_every_spoken_sentence_once(sampled):
    spoken, written = sampled
    assert set(spoken["train"]) <= set(written["train"])
    assert len({"".join(sentence) for sentence in written["train"]}) == len(written["train"])


def test_no_two_sentences_sound_alike(sampled):
    hanzi_by_sound = {}
    for sentence in (sentence for chosen in sampled[1].values() for sentence in chosen):
        sound = " ".join(syllable for word in sentence for syllable in grammar.read(word))
        assert hanzi_by_sound.setdefault(sound, "".join(sentence)) == "".join(sentence)


def test_same_seed_gives_the_same_sentences_and_another_seed_others():
    assert sample(**SMALL) == sample(**SMALL) != sample(**SMALL, sampling_seed=2)


def test_more_sentences_than_the_grammar_has_are_refused(monkeypatch):
    monkeypatch.setattr(sentences, "_MAX_SAMPLES", 50)
    message = "--num_test: the grammar produced only .* suitable sentences, but 60 are needed; "
    with pytest.raises(errors.UserError, match=message):
        sample(num_train=60, num_dev=1, num_test=60, min_occurrences=1)


@pytest.fixture(scope="module")
def written_dir(tmp_path_factory):
    """The directory of a small sample."""
    directory = tmp_path_factory.mktemp("sentences")
    sentences.main(sentences.SentencesConfig(output_dir=str(directory), **SMALL))
    return directory


def test_the_builder_reads_the_files(written_dir):
    for name, chosen in zip(("spoken", "written"), sample(**SMALL)):
        found = list(registry.list_utterances("text", [str(written_dir / name)]))
        expected = [(split, "".join(words)) for split in chosen for words in chosen[split]]
        assert [(each.split, each.text) for each in found] == expected
        assert found[0].pinyin == " ".join(grammar.read_words(chosen["train"][0]))
        assert all(len(marks.split(each.text)[0]) == len(each.pinyin.split()) for each in found)


def test_the_paragraphs_have_the_written_sentences_and_repeat_frequently_spoken_ones(written_dir):
    pieces = list(registry.list_utterances("punctuated", [str(written_dir / "punctuated")]))
    spoken, written = sample(**SMALL)
    for split, chosen in {**written, "train": spoken["train"] + written["train"]}.items():
        text = "".join(word for words in chosen for word in words)
        assert "".join(piece.text for piece in pieces if piece.split == split) == text
        lines = (written_dir / "punctuated" / f"{split}.txt").read_text("utf-8").splitlines()
        assert len(lines) == math.ceil(len(chosen) / 5)
        assert lines[0] == "".join("".join(words) for words in chosen[:5])


@pytest.mark.long
def test_records_of_the_speech_keep_the_marks(written_dir, tmp_path):
    corpus, data = tmp_path / "corpus", tmp_path / "data"
    text_dir = written_dir / "spoken"
    run("synthesise", "--tts=espeak", f"--text_dir={text_dir}", f"--output_dir={corpus}", "--num_speakers=3")
    run("build", "--corpus=manifest", f"--corpus_dir={corpus}", f"--output_dir={data}", "--num_shards=1")
    paths = dataset_info.DatasetInfo.load(str(data)).shard_paths(str(data), "train")
    serialized = [record for path in paths for record in built_data.read(path)]
    records = list(schema.parse_records(serialized, with_marks=True))
    written = sorted(record["written"].decode() for record in records)
    assert written == sorted(map("".join, sample(**SMALL)[0]["train"]))
    for record in records:
        characters, _ = marks.split(record["written"].decode())
        assert "".join(characters) == record["transcript"].decode()
