import pytest

from tfrecord_builder import errors, manifest
from tfrecord_builder.labels import bpe, labelling, subwords, vocabularies

TEXTS = ("The cat sat!", "the mat 3")


@pytest.fixture
def training_utterances():
    return [manifest.Utterance(f"u{i}", f"{i}.wav", "", text, "", "train") for i, text in enumerate(TEXTS)]


def _make(training_utterances, vocabulary_dir="", **options):
    config = vocabularies.VocabularyConfig(vocabulary_dir=vocabulary_dir)
    return subwords.make(labelling.LabelConfig(**options), config, training_utterances)


def test_learnt_from_the_normalised_transcripts_of_the_train_split(training_utterances):
    assert _make(training_utterances, token_type="bpe", bpe_vocab_size=40) == bpe.train(
        ["the cat sat", "the mat 3"], 40
    )
    assert _make(training_utterances, token_type="bpe", numbers="read") == bpe.train(
        ["the cat sat", "the mat三"], 500
    )


def test_taken_over(training_utterances, tmp_path):
    (tmp_path / "bpe.model").write_bytes(b"model")
    assert _make(training_utterances, str(tmp_path), token_type="bpe") == b"model"
    (tmp_path / "bpe.model").unlink()
    with pytest.raises(errors.UserError, match="bpe.model cannot be read"):
        _make(training_utterances, str(tmp_path), token_type="bpe")


def test_another_unit_has_none(training_utterances):
    assert _make(training_utterances) is None
