"""The signature `language` converts pinyin to hanzi."""

import numpy as np
import pytest
import tensorflow as tf
import tiny_models

from estimator_asr import tune
from estimator_asr.experiment import config, decoding_files
from estimator_asr.exporting.saved_model import recogniser, saved_model_writer, trained_model

ARPA = """\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-9\t<unk>
-99\t<s>
-1\t</s>
-0.1\t好

\\2-grams:
-0.1\t好 好

\\end\\
"""


@pytest.fixture(scope="module")
def model(tiny_export):
    return recogniser.load(tiny_export.version_dir, "language")


def test_hanzi_equal_those_of_the_language_model_alone(trained_models, model):
    """The untrained model may choose any hanzi with a syllable's pronunciation; it does not know ma5."""
    alone = trained_model.build_recogniser(trained_models[1])
    texts = ["ni3 hao3", "zi4 qi4 zi4", "hao3", "ni3 hao3 ma5"]
    ids = [[tiny_models.OTHER_TOKENS.encode(text.split())] for text in texts]
    expected = [
        alone.run({"token_ids": np.array(row, np.int32), "num_tokens": [len(row[0])]})["transcript"][0]
        for row in ids
    ]
    found = model.run({"pinyin": texts})
    assert found["transcript"] == expected
    assert [len(text) for text in expected[:3]] == [2, 3, 1]
    assert found["status"] == ["ok"] * 4
    assert found["language_score"][0] < 0


def test_hanzi_equal_those_of_the_cascade(tiny_export, model):
    waveform = tiny_export.utterances["u3"][-1]
    cascade = recogniser.load(tiny_export.version_dir, "waveform")
    heard = cascade.run({"waveform": waveform[None], "num_samples": [len(waveform)]})
    written = model.run({"pinyin": heard["pinyin"]})
    np.testing.assert_allclose(written["language_score"], heard["language_score"], rtol=1e-4)
    assert written["transcript"] == heard["transcript"] != [""]


def test_rejected_items_are_empty_and_do_not_affect_other_items(model):
    long = " ".join(["ni3"] * 1801)
    found = model.run({"pinyin": ["ni3 hao3", "", "  ", b"ni3 \xff", long, "hao3"]})
    assert found["status"] == ["ok", "empty", "empty", "malformed", "too_long", "ok"]
    assert found["transcript"][1:5] == [""] * 4
    assert found["language_score"][1:5] == [0.0] * 4
    expected = model.run({"pinyin": ["ni3 hao3", "ni3", "ni3", "ni3", "ni3", "hao3"]})
    assert found["transcript"][::5] == expected["transcript"][::5]
    np.testing.assert_allclose(found["language_score"][::5], expected["language_score"][::5], rtol=1e-6)


def test_syllables_may_have_several_spaces_between_them_and_letters_are_copied(model):
    found = model.run({"pinyin": ["ni3 hao3", " ni3  hao3 ", "A hao3"]})
    assert found["transcript"][0] == found["transcript"][1]
    assert found["transcript"][2] == "A" + model.run({"pinyin": ["hao3"]})["transcript"][0]


@pytest.mark.parametrize(
    "text", ["ni3\u3000hao3", "\ufeffni3 hao3", "ni3\xa0\u2003hao3\u2028", "ni3\thao3\r\n"]
)
def test_spaces_of_unicode_separate_syllables(model, text):
    found = model.run({"pinyin": [text]})
    assert found == model.run({"pinyin": ["ni3 hao3"]})
    assert model.run({"pinyin": ["\u3000\ufeff"]})["status"] == ["empty"]


def test_a_batch_of_no_items(model):
    found = model.run({"pinyin": np.zeros([0], object)})
    assert found == {"transcript": [], "language_score": [], "status": []}


@pytest.mark.long
def test_the_ngram_model_is_in_the_graph_once(trained_models, tmp_path):
    """With the n-gram model, the language model writes 好 instead of 郝."""
    directory = str(tmp_path / "lm")
    opened = tiny_models.make_language_model(directory, seed=3)
    (tmp_path / "small.arpa").write_text(ARPA, "utf-8")
    ngram = tune.read_ngram(str(tmp_path / "small.arpa"), opened)
    decoding_files.save(directory, decoding_files.Decoding(config.DecodeConfig(ngram_weight=9.0), ngram))
    models = [trained_models[0], trained_model.open_trained_model(directory)]
    found = recogniser.load(saved_model_writer.write(*models, str(tmp_path / "export")), "language")
    assert found.run({"pinyin": ["hao3 hao3"]})["transcript"] == ["好好"]
    constants = [each for each in found.session.graph.get_operations() if each.type == "Const"]
    values = [tf.make_ndarray(each.get_attr("value")) for each in constants]
    assert sum(np.array_equal(value, ngram.keys) for value in values if value.dtype == np.int64) == 1


@pytest.mark.long
def test_an_export_without_a_language_model_has_no_such_signature(trained_models, tmp_path):
    path = saved_model_writer.write(trained_models[0], None, str(tmp_path))
    with pytest.raises(Exception, match="the SavedModel cannot be loaded"):
        recogniser.load(path, "language")
