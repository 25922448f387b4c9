import json

import pytest

from tfrecord_builder import errors
from tfrecord_builder.data import manifest, readings, vocabulary
from tfrecord_builder.labels import labelling, subwords, vocabularies

TRAINING = (
    labelling.Labels("你好", ("ni3", "hao3"), ("你", "好")),
    labelling.Labels("花儿", ("huar1",), ()),
    labelling.Labels("ok", ("o", "k"), ("o", "k")),
)
BPE = labelling.LabelConfig(token_type="bpe", bpe_vocab_size=40)
AGAIN = labelling.Labels("再", ("zai4",), ("再",))


def _collect(training, dev=(), **options):
    collector = vocabularies.Collector(labelling.LabelConfig(**options))
    for split, found in (("train", training), ("dev", dev)):
        for each in found:
            collector.add(each, split)
    return collector


def _make(training=(), dev=(), **options):
    return vocabularies.make(_collect(training, dev), vocabularies.VocabularyConfig(**options))


def test_vocabularies_contain_all_labels_of_the_train_split():
    made = _make(TRAINING, dev=[AGAIN])
    assert made.tokens.tokens == ("<unk>", "hao3", "huar1", "k", "ni3", "o")
    assert made.characters.tokens == ("<unk>", "k", "o", "你", "好")
    assert "zai4" not in made.readings.pairs
    assert made.bpe is None


def test_merged_counts_equal_those_of_the_whole_corpus():
    other = labelling.Labels("妳", ("ni3",), ("妳",))
    whole, merged = _collect([*TRAINING, other], [AGAIN]), _collect([])
    for part in (_collect(TRAINING), _collect([other], [AGAIN])):
        merged.merge(json.loads(json.dumps(part.to_json())))
    assert (merged.training_tokens, merged.pairs) == (whole.training_tokens, whole.pairs)
    assert merged.training_characters == whole.training_characters
    assert (merged.tokens["ni3"], merged.tokens["zai4"], merged.characters["好"]) == (2, 1, 1)


def test_readings_come_from_training_pairs_and_the_dictionary():
    heard = labelling.Labels("一好", ("yi2", "hao3"), ("一", "好"))
    pairs = _make([heard, *TRAINING]).readings.pairs
    assert pairs["yi2"] == pairs["yi1"] == "一"
    assert pairs["hao3"] == pairs["hao4"] == "好"  # hao4 comes from the dictionary
    assert pairs["o"] == "o"
    assert "huar1" not in pairs


def test_readings_have_the_token_type():
    collector = _collect([labelling.Labels("好a", ("hao", "A"), ("好", "a"))], token_type="toneless")
    pairs = vocabularies.make(collector, vocabularies.VocabularyConfig()).readings.pairs
    assert pairs == {"hao": "好", "A": "a"}


def test_a_later_build_reuses_saved_vocabularies(tmp_path):
    first = _make(TRAINING)
    first.save(str(tmp_path))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["characters.txt", "readings.tsv", "tokens.txt"]
    second = _make([AGAIN], vocabulary_dir=str(tmp_path))
    for name in ("tokens", "characters", "readings"):
        assert getattr(second, name).sha256 == getattr(first, name).sha256


def test_with_only_frozen_tokens_characters_come_from_the_train_split(tmp_path):
    _make(TRAINING).tokens.save(str(tmp_path / "frozen.txt"))
    made = _make([AGAIN], vocabulary=str(tmp_path / "frozen.txt"))
    assert "zai4" not in made.tokens.tokens
    assert made.characters.tokens == ("<unk>", "再")


def test_a_directory_may_have_only_tokens(tmp_path):
    _make(TRAINING).tokens.save(str(tmp_path / "tokens.txt"))
    assert _make(vocabulary_dir=str(tmp_path)).characters.tokens == ("<unk>",)


def test_extended_keeps_the_ids_and_merges_the_readings(tmp_path):
    vocabulary.Vocabulary(["<unk>", "zai4", "ni3"]).save(str(tmp_path / "tokens.txt"))
    vocabulary.Vocabulary(["<unk>", "再", "你"]).save(str(tmp_path / "characters.txt"))
    readings.Readings({"zai4": "再在", "xyz1": "你"}).save(str(tmp_path / "readings.tsv"))
    made = _make(TRAINING, [AGAIN], vocabulary_dir=str(tmp_path), extend_vocabulary=True)
    assert made.tokens.tokens == ("<unk>", "zai4", "ni3", "hao3", "huar1", "k", "o")
    assert made.characters.tokens == ("<unk>", "再", "你", "k", "o", "好")
    pairs = made.readings.pairs
    assert (pairs["zai4"], pairs["xyz1"], pairs["hao4"], pairs["k"]) == ("再在", "你", "好", "k")


def test_tokens_can_be_extended_without_a_directory(tmp_path):
    _make([AGAIN]).tokens.save(str(tmp_path / "frozen.txt"))
    made = _make(TRAINING, vocabulary=str(tmp_path / "frozen.txt"), extend_vocabulary=True)
    assert made.tokens.tokens == ("<unk>", "zai4", "hao3", "huar1", "k", "ni3", "o")
    assert _make(vocabulary=str(tmp_path / "frozen.txt"), extend_vocabulary=True).tokens.size == 2


def test_unknown_tokens_of_all_splits_are_counted(tmp_path):
    _make(TRAINING).save(str(tmp_path))
    dev = [AGAIN, AGAIN, labelling.Labels("不好", ("bu4", "hao3"), ("不", "好")), *TRAINING]
    collector = _collect([labelling.Labels("他", ("ta1",), ("他",))], dev)
    frozen = vocabularies.make(collector, vocabularies.VocabularyConfig(vocabulary_dir=str(tmp_path)))
    unknown = vocabularies.most_frequent_unknown(collector.tokens, frozen.tokens, 9)
    assert unknown == [("zai4", 2), ("bu4", 1), ("ta1", 1)]
    assert vocabularies.most_frequent_unknown(collector.characters, frozen.characters, 1) == [("再", 2)]
    assert collector.tokens["hao3"] == 2


def test_all_subwords_are_tokens(tmp_path):
    collector = _collect([labelling.Labels("the", ("▁the",), ())], token_type="bpe")
    model = subwords.train(["the"] * 3, 10)
    made = vocabularies.make(collector, vocabularies.VocabularyConfig(), model)
    made.save(str(tmp_path))
    assert {"t", "h", "e", "▁", "▁the"} < set(made.tokens.tokens)  # other texts may need the letters
    frozen = vocabularies.VocabularyConfig(vocabulary_dir=str(tmp_path))
    assert vocabularies.make_subwords(BPE, frozen, []) == model
    assert vocabularies.make_subwords(labelling.LabelConfig(), frozen, []) is None


def test_subwords_are_learned_from_the_normalised_transcripts():
    config = vocabularies.VocabularyConfig()
    texts = ("The cat sat!", "the mat 3")
    training = [manifest.Utterance("u", None, "", text, "", "train") for text in texts]
    expected = subwords.train(["the cat sat", "the mat 3"], 40)
    assert vocabularies.make_subwords(BPE, config, training) == expected


def test_missing_subwords_are_refused(tmp_path):
    config = vocabularies.VocabularyConfig(vocabulary_dir=str(tmp_path))
    message = "--vocabulary_dir: .*/bpe.model cannot be read .No such file.*built with --token_type=bpe"
    with pytest.raises(errors.UserError, match=message):
        vocabularies.make_subwords(BPE, config, [])
    message = "--vocabulary, --token_type=bpe: tokens.txt alone is not enough to split.*_dir"
    with pytest.raises(errors.UserError, match=message):
        vocabularies.make_subwords(BPE, vocabularies.VocabularyConfig(vocabulary="tokens.txt"), [])


@pytest.mark.parametrize(
    ("training", "options", "message"),
    [
        ((), {}, "no usable train split.*--vocabulary_dir"),
        (TRAINING, dict(vocabulary="none.txt"), "none.txt"),
        (TRAINING, dict(vocabulary_dir="nowhere"), "nowhere/tokens.txt"),
        ((), dict(vocabulary="a", vocabulary_dir="b"), "--vocabulary and --vocabulary_dir are both set; "),
        ((), dict(extend_vocabulary=True), "vocabulary: there is no vocabulary to extend.*--vocabulary_dir"),
    ],
)
def test_refuses(training, options, message):
    with pytest.raises(errors.UserError, match=message):
        _make(training, TRAINING, **options)


@pytest.mark.parametrize("file", ["dataset_info.json", "config.json"])
def test_a_frozen_vocabulary_of_another_token_type_is_refused(tmp_path, file):
    vocabularies.check_token_type(str(tmp_path), "syllable")  # no file exists yet
    (tmp_path / file).write_text('{"token_type": "bpe"}')
    vocabularies.check_token_type(str(tmp_path), "bpe")
    message = f"{file} is bpe, but this build uses syllable; pass --token_type=bpe or"
    with pytest.raises(errors.UserError, match=message):
        vocabularies.check_token_type(str(tmp_path), "syllable")


@pytest.mark.parametrize("content", ["{", "[1]", "{}", "1"])
def test_a_directory_without_a_token_type_is_refused(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    message = "the token_type in .*config.json cannot be read .*; pass a data or model"
    with pytest.raises(errors.UserError, match=message):
        vocabularies.check_token_type(str(tmp_path), "syllable")
