import pytest

from tfrecord_builder import errors, manifest
from tfrecord_builder.building import catalog
from tfrecord_builder.labels import bpe, labelling, subwords, vocabularies

TEXTS = ("The cat sat!", "the mat 3")


@pytest.fixture
def spooled(tmp_path):
    with catalog.open_new(str(tmp_path / "spool.sqlite")) as opened:
        for i, text in enumerate(TEXTS):
            opened.add_utterance(manifest.Utterance(f"u{i}", f"{i}.wav", "", text, "", "train"))
        opened.add_utterance(manifest.Utterance("v", "v.wav", "", "犇", "", "dev"))
        yield opened


def _make(spooled, vocabulary_dir="", **options):
    config = vocabularies.VocabularyConfig(vocabulary_dir=vocabulary_dir)
    return subwords.make(labelling.LabelConfig(**options), config, spooled)


def test_learnt_from_the_normalised_transcripts_of_the_train_split(spooled):
    assert _make(spooled, token_type="bpe", bpe_vocab_size=40) == bpe.train(["the cat sat", "the mat 3"], 40)
    assert _make(spooled, token_type="bpe", numbers="read") == bpe.train(["the cat sat", "the mat三"], 500)


def test_taken_over(spooled, tmp_path):
    (tmp_path / "bpe.model").write_bytes(b"model")
    assert _make(spooled, str(tmp_path), token_type="bpe") == b"model"
    (tmp_path / "bpe.model").unlink()
    with pytest.raises(errors.UserError, match="bpe.model cannot be read"):
        _make(spooled, str(tmp_path), token_type="bpe")


def test_another_unit_has_none(spooled):
    assert _make(spooled) is None
