"""--exclude leaves the utterances listed in a table out of a build."""

import hashlib

import built_data
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.building import builder
from tfrecord_builder.data import recordings, vocabulary
from tfrecord_builder.labels import subwords

SUSPECTS = (  # a table that estimator_asr.align writes
    "id\taudio\tstart\tduration\tscore\tfault\ttext\theard\twords\n"
    "u02\t/in/u02.wav\t\t\t0.010\tanother sentence\t今天天气很好\tni3 hao3\t今 > ni3\n"
    "u06\t/in/u06.wav\t\t\t0.100\tsilence\t你好\t\t-你好\n"
)


@pytest.fixture
def corpus(tmp_path):
    """Six utterances in train and two in dev; only u02 says 今天天气很好 in train."""
    return small_corpora.make_manifest_corpus(tmp_path / "in")


def build(corpus_dir, output_dir, table, **flags):
    """Builds a corpus without the utterances in a table; returns dataset_info."""
    exclude = small_corpora.write_text(output_dir.parent / "suspects.tsv", table)
    return built_data.build(corpus_dir, output_dir, exclude=exclude, num_shards=1, **flags)


def ids(output_dir, split="train"):
    names = recordings.read_items(
        str(output_dir / f"{split}-00000-of-00001.tfrecord"), lambda item: item["utterance"]["utterance_id"]
    )
    return sorted(names)


def test_excluded_utterances_and_their_copies_are_left_out_and_counted(tmp_path, corpus, caplog):
    info = build(corpus, tmp_path / "out", SUSPECTS, max_rejected=0.0, speed_perturb_factors=(1.0, 1.1))
    names = [f"u0{i}" for i in (0, 1, 3, 4, 5)]
    assert ids(tmp_path / "out") == sorted([*names, *(f"{name}~speed1.1" for name in names)])
    assert ids(tmp_path / "out", "dev") == ["u07"]
    lines = (tmp_path / "out" / "rejected.tsv").read_text().splitlines()
    assert lines[1:] == [
        f"{name}\t{split}\texcluded by --exclude\t{corpus}/audio/{name}.wav"
        for name, split in (("u02", "train"), ("u06", "dev"))
    ]
    assert (info.num_rejected, info.splits["train"].num_utterances) == (2, 10)
    assert info.exclude_sha256 == hashlib.sha256(SUSPECTS.encode()).hexdigest()
    assert "2 of 13 utterances were rejected: excluded by --exclude (2)" in caplog.messages
    assert "今" not in vocabulary.Vocabulary.load(str(tmp_path / "out" / "characters.txt")).tokens


def test_excluded_utterances_are_not_in_the_text_of_subwords(tmp_path, corpus, monkeypatch):
    texts = []
    monkeypatch.setattr(subwords, "train", lambda transcripts, size: texts.extend(transcripts) or stop())

    def stop():
        raise errors.UserError("stop")

    with pytest.raises(errors.UserError, match="stop"):
        build(corpus, tmp_path / "out", SUSPECTS, token_type="bpe")
    assert texts == ["一下", "你好", "北京", "谢谢", "一下"]


def test_rejections_are_counted_without_the_excluded_ones(tmp_path, corpus):
    small_corpora.write_audio(tmp_path / "in" / "audio" / "u00.wav", 0 * small_corpora.tone(0.5))
    with pytest.raises(errors.UserError, match=r"1 of 6 .* limit is 16.0%: silent audio \(1\); see"):
        build(corpus, tmp_path / "out", SUSPECTS, max_rejected=0.16)
    assert build(corpus, tmp_path / "out", SUSPECTS, max_rejected=0.17).num_rejected == 3


def test_unknown_ids_are_named_in_a_warning(tmp_path, corpus, caplog):
    table = "id\n" + "".join(f"x{i}\n" for i in range(7)) + "u00\n\n"
    build(corpus, tmp_path / "out", table)
    message = "--exclude: 7 ids in the file are not in the corpus: x0, x1, x2, x3, x4, ..."
    assert message in caplog.messages
    assert len(ids(tmp_path / "out")) == 5


def test_sentences_of_a_text_corpus_are_excluded(tmp_path):
    corpus = small_corpora.make_text_corpus(tmp_path / "news")
    info = build(corpus, tmp_path / "out", "id\nnews-train-3\n", corpus="text")
    assert ids(tmp_path / "out") == ["news-train-2", "news-train-4"]
    assert info.num_rejected == 1


@pytest.mark.parametrize(
    "table, problem",
    [
        ("score\tfault\n0.1\tsilence\n", r"suspects.tsv: found score, fault, but no id \(id, utterance_id, "),
        ("\n", r"suspects.tsv: found no id \("),
        ("", r"suspects.tsv: found no id \("),
    ],
)
def test_a_table_without_ids_or_a_missing_table_is_refused(tmp_path, corpus, table, problem):
    with pytest.raises(errors.UserError, match=f"^--exclude: .*{problem}"):
        build(corpus, tmp_path / "out", table)
    with pytest.raises(errors.UserError, match="^--exclude: .*none.tsv: file does not exist"):
        built_data.build(corpus, tmp_path / "out", exclude=str(tmp_path / "none.tsv"))
    assert not (tmp_path / "out").exists()


def test_a_table_with_all_utterances_is_refused(tmp_path, corpus):
    table = "id\n" + "".join(f"u0{i}\n" for i in range(8))
    message = "^--exclude: the file excludes all utterances in .*/in; check"
    with pytest.raises(errors.UserError, match=message):
        build(corpus, tmp_path / "out", table)


def test_another_table_does_not_continue_a_build(tmp_path, corpus, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(builder.summary, "write", lambda *_: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            build(corpus, tmp_path / "out", "id\nu02\n")
    with pytest.raises(errors.UserError, match="interrupted build with a different corpus or different flag"):
        build(corpus, tmp_path / "out", "id\tnote\nu02\tnoise\n")
    assert build(corpus, tmp_path / "out", "id\nu02\n").num_rejected == 1
