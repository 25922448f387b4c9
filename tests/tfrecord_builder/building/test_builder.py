import errno
import hashlib
import os

import built_data
import numpy as np
import pytest
import small_corpora
import soundfile

from tfrecord_builder import errors, verify
from tfrecord_builder.audio.augmentation import codecs
from tfrecord_builder.building import builder, shard_statistics
from tfrecord_builder.building.engines import local_engine
from tfrecord_builder.data import dataset_info, readings, vocabulary

_build, _records = built_data.build, built_data.parse


def _rejected(output_dir):
    lines = (output_dir / "rejected.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "utterance_id\tsplit\treason\trecording"
    assert all(line.count("\t") == 3 for line in lines)
    return [tuple(line.split("\t"))[:3] for line in lines[1:]]


def test_manifest_to_data_directory(tmp_path):
    info = _build(small_corpora.make_manifest_corpus(tmp_path / "in"), tmp_path / "out", num_shards=2)
    sidecar_files = ["characters.txt", "readings.tsv", "rejected.tsv", "report.html", "tokens.txt"]
    shards = ["dev-00000-of-00002", "dev-00001-of-00002", "train-00000-of-00002", "train-00001-of-00002"]
    shard_files = [f"{shard}.{kind}" for shard in shards for kind in ("jsonl", "tfrecord")]
    expected = sorted([*sidecar_files, *shard_files, "dataset_info.json"])
    assert sorted(os.listdir(tmp_path / "out")) == expected
    assert dataset_info.DatasetInfo.load(str(tmp_path / "out")) == info
    train = info.splits["train"]
    assert (train.num_utterances, train.num_speakers, train.seconds) == (6, 2, 3.0)
    assert (train.frame_lengths, train.token_lengths) == ({48: 6}, {2: 5, 6: 1})
    assert (train.unknown_tokens, info.splits["dev"].num_utterances, info.num_rejected) == (0, 2, 0)
    assert _rejected(tmp_path / "out") == []


def test_statistics_are_those_of_the_training_frames(tmp_path):
    info = _build(small_corpora.make_manifest_corpus(tmp_path / "in"), tmp_path / "out", num_shards=3)
    frames = np.concatenate([record["fbank"] for record in _records(tmp_path / "out", "train", num_bins=80)])
    np.testing.assert_allclose(info.feature_mean, frames.astype(np.float64).mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(info.feature_stddev, frames.astype(np.float64).std(axis=0), rtol=1e-6)


def test_vocabulary_holds_the_training_split_and_not_the_dev_split(tmp_path):
    lines = ["id\taudio\ttext\tpinyin\tsplit", "u1\ta.wav\t绿\tlü4\ttrain", "u2\ta.wav\t绿红\t\tdev"]
    small_corpora.write_audio(tmp_path / "in" / "a.wav", small_corpora.tone(0.5))
    small_corpora.write_text(tmp_path / "in" / "manifest.tsv", "\n".join(lines))
    info = _build(tmp_path / "in", tmp_path / "out")
    assert vocabulary.Vocabulary.load(str(tmp_path / "out" / "tokens.txt")).tokens == ("<unk>", "lv4")
    dev = info.splits["dev"]
    assert (dev.num_tokens, dev.unknown_tokens, dev.num_characters, dev.unknown_characters) == (2, 1, 2, 1)
    assert info.token_counts == (0, 1)  # the counts in train
    (record,) = _records(tmp_path / "out", "dev")
    assert record["pronunciation"] == b"lv4 hong2"
    assert record["token_ids"].tolist() == [1, 0]


def test_text(tmp_path):
    info = _build(small_corpora.make_text_corpus(tmp_path / "news"), tmp_path / "out", corpus="text")
    assert (info.frontend, info.feature_mean, info.splits["train"].seconds) == (None, (), 0.0)
    assert info.splits["train"].token_lengths == {1: 1, 2: 2}
    (record,) = _records(tmp_path / "out", "dev")
    assert (record["utterance_id"], record["speaker"]) == (b"news-dev-2", b"news")
    assert record["transcript"].decode() == "你谢"
    pairs = readings.Readings.load(str(tmp_path / "out" / "readings.tsv")).pairs
    assert pairs["hao3"] == "好" and pairs["xie5"] == "谢"


ACCEPTED_ROWS = (
    ("你好", "ni3\u200b hao3"),
    ("花儿", "hua1 r"),
    ("绿", "LǛ"),
    ("⻢上出发", ""),
    ("A楼", "A lou2"),
    ("OK", "o k"),
    ("A＋B＝C", ""),
    ("你好★🏙&\u200b", ""),
)
REJECTED_ROWS = (
    ("花儿", "huar1", "hanzi and pinyin do not match one to one"),
    ("你", "ni3 hao3", "hanzi and pinyin do not match one to one"),
    ("", "hao3", "hanzi and pinyin do not match one to one"),
    ("，。", "", "no transcript"),
    ("你好", "ni3 hao9", "pinyin has an unknown syllable: hao9"),
    ("刘\ue863是皇帝", "", "transcript has an unreadable character: U+E863 (private use)"),
    ("我和\ufffd你", "", "transcript has an unreadable character: U+FFFD (replacement character)"),
)


def test_rows_of_text_are_accepted_or_rejected_with_a_reason(tmp_path, caplog):
    rows = [row[:2] for row in (("hanzi", "pinyin"), *REJECTED_ROWS, *ACCEPTED_ROWS)]
    small_corpora.write_text(tmp_path / "in" / "train.tsv", "\n".join(map("\t".join, rows)) + "\n")
    message = r"7 of 15 .* 5.0%: hanzi and pinyin do not match one to one \(3\), transcript has an unreadable"
    with pytest.raises(errors.UserError, match=message):
        _build(tmp_path / "in", tmp_path / "out", corpus="text")
    _build(tmp_path / "in", tmp_path / "out", corpus="text", max_rejected=0.5)
    expected = [(f"in-train-{line}", "train", row[2]) for line, row in enumerate(REJECTED_ROWS, 2)]
    assert _rejected(tmp_path / "out") == expected
    transcripts = sorted(record["transcript"].decode() for record in _records(tmp_path / "out", "train"))
    assert transcripts == ["a加b等于c", "a楼", "ok", "你好", "你好", "绿", "花儿", "马上出发"]
    tokens = set(vocabulary.Vocabulary.load(str(tmp_path / "out" / "tokens.txt")).tokens)
    assert {"a", "hao3", "hua1", "k", "lou2", "lv4", "ni3", "o", "r5"} <= tokens and "hao9" not in tokens
    assert "7 of 15 utterances were rejected: hanzi and pinyin do not match one to one (3)" in caplog.text
    assert (
        "characters left out of the transcripts: emoji and other pictures (2), symbols (1), "
        "zero-width characters (1); if a character was spoken, write it as a word"
    ) in caplog.messages
    report = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "emoji and other pictures <i>2</i>" in report and "zero-width characters <i>1</i>" in report


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ("keep", "numbers in 2 transcript(s) lose points, signs or units in the labels (12.5% becomes"),
        ("read", "numbers in 1 transcript(s) may be read differently from what was said (a hyphen "),
    ],
)
def test_transcripts_with_unclear_numbers_are_counted(tmp_path, caplog, numbers, said):
    rows = "hanzi\tpinyin\n增长12.5%\t\n歼-20\t\n百分之3.5\tbai3 fen1 zhi1 san1 dian3 wu3\n你好\t\n"
    small_corpora.write_text(tmp_path / "in" / "train.tsv", rows)
    _build(tmp_path / "in", tmp_path / "out", corpus="text", numbers=numbers, max_rejected=0.5)
    (line,) = (record.message for record in caplog.records if "transcript(s)" in record.message)
    example = {"keep": "增长12.5%; pass --numbers=read", "read": "for example in-train-3: 歼-20; write"}
    assert f"--numbers={numbers}: {said}" in line and example[numbers] in line


@pytest.mark.parametrize(
    ("text", "is_mixed"), [("她們來這裡學習國語說話聽車站", True), ("乾隆皇后著作", False)]
)
def test_traditional_characters_beside_simplified_ones_are_counted(tmp_path, caplog, text, is_mixed):
    rows = f"hanzi\tpinyin\n她们来这里学习国语说话听车站\t\n{text}\t\n"
    small_corpora.write_text(tmp_path / "in" / "train.tsv", rows)
    _build(tmp_path / "in", tmp_path / "out", corpus="text")
    said = [record.message for record in caplog.records if "opencc" in record.message]
    assert len(said) == is_mixed
    for part in ("contain 12 traditional characters whose simplified", "來 (1) for 来", "opencc -c t2s"):
        assert all(part in line for line in said)


def _make_broken_corpus(directory):
    """Writes one good recording, and one for each reason to reject a recording."""
    samples = small_corpora.tone(0.5)
    infinite = samples.copy()
    infinite[5] = np.inf
    audio = directory / "audio"
    for name in ("good", "mute", "long", "cut"):
        small_corpora.write_audio(audio / f"{name}.wav", samples)
    small_corpora.write_audio(audio / "long.wav", small_corpora.tone(1.1))
    small_corpora.write_audio(audio / "nan.wav", infinite, subtype="FLOAT")
    small_corpora.write_audio(audio / "silent.wav", np.zeros(8000))
    small_corpora.write_audio(audio / "short.wav", small_corpora.tone(0.03))
    small_corpora.write_text(audio / "text.wav", "no sound")
    small_corpora.write_text(audio / "empty.wav", "")
    (audio / "cut.wav").write_bytes((audio / "cut.wav").read_bytes()[:5000])
    names = ["good", "mute", "long", "cut", "nan", "silent", "short", "text", "empty", "none"]
    lines = [f"{name}\taudio/{name}.wav\t{'' if name == 'mute' else '你好'}\ttrain" for name in names]
    small_corpora.write_text(directory / "manifest.tsv", "\n".join(["id\taudio\ttext\tsplit", *lines]))
    return directory


def test_every_reason_is_counted_and_none_is_fatal(tmp_path):
    corpus_dir = _make_broken_corpus(tmp_path / "in")
    info = _build(corpus_dir, tmp_path / "out", max_rejected=0.9, max_seconds=1.0, num_shards=1)
    assert dict((name, reason) for name, _, reason in _rejected(tmp_path / "out")) == {
        "mute": "no transcript",
        "long": "longer than --max_seconds",
        "cut": "truncated audio",
        "nan": "NaN or Inf samples",
        "silent": "silent audio",
        "short": "too short for its labels",
        "text": "unreadable audio",
        "empty": "empty audio",
        "none": "no such audio file",
    }
    assert info.num_rejected == 9
    assert [record["utterance_id"] for record in _records(tmp_path / "out", "train")] == [b"good"]


def test_a_build_with_too_many_rejected_utterances_fails_and_can_be_continued(tmp_path):
    corpus_dir = _make_broken_corpus(tmp_path / "in")
    for name in ("text", "silent"):  # makes one reason the most frequent
        small_corpora.write_text(corpus_dir / "audio" / f"{name}.wav", "")
    message = (
        r"--max_rejected: 9 of 10 utterances were rejected, but the limit is 89.0%: empty audio \(3\), "
        r"[^,]* \(1\), [^,]* \(1\); see .*out/rejected.tsv, then fix the corpus or raise --max_rejected"
    )
    with pytest.raises(errors.UserError, match=message):
        _build(corpus_dir, tmp_path / "out", max_rejected=0.89, max_seconds=1.0)
    assert len(_rejected(tmp_path / "out")) == 9
    staged = tmp_path / "out" / ".build" / "train-00000-of-00009.tfrecord"
    assert staged.exists()
    before = staged.stat().st_ino
    _build(corpus_dir, tmp_path / "out", max_rejected=0.9, max_seconds=1.0)
    assert (tmp_path / "out" / staged.name).stat().st_ino == before
    assert len(_rejected(tmp_path / "out")) == 9


def test_a_build_fails_if_all_utterances_are_rejected(tmp_path):
    small_corpora.write_text(tmp_path / "in" / "manifest.tsv", "id\taudio\ttext\nu1\twav/a\x1fb.wav\t你\n")
    message = r"1 of 1 utterances were rejected, so no data is left: no such audio file \(1\); see .*, then "
    with pytest.raises(errors.UserError, match=message + "fix the corpus.$"):
        _build(tmp_path / "in", tmp_path / "out", max_rejected=1.0)
    lines = (tmp_path / "out" / "rejected.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[1] == f"u1\ttrain\tno such audio file\t{tmp_path}/in/wav/a\\x1fb.wav"


def test_too_many_bad_transcripts_fail_before_any_recording_is_read(tmp_path, monkeypatch):
    small_corpora.write_text(
        tmp_path / "in" / "manifest.tsv", "id\taudio\ttext\nu1\ta.wav\t\nu2\tb.wav\t你\n"
    )
    monkeypatch.setattr(local_engine, "_run", lambda *_: pytest.fail("units were run"))
    with pytest.raises(errors.UserError, match=r"1 of 2 .* limit is 5.0%: no transcript \(1\)"):
        _build(tmp_path / "in", tmp_path / "out")
    assert _rejected(tmp_path / "out") == [("u1", "train", "no transcript")]


def test_table_rows_select_segments_of_recordings(tmp_path):
    silence, loud = np.zeros(8000, np.float32), small_corpora.tone(0.5)
    sides = np.stack([np.concatenate([silence, loud]), np.zeros(16000, np.float32)], axis=1)
    small_corpora.write_audio(tmp_path / "in" / "a.wav", sides)
    rows = ["id,audio,text,start,end,duration,channel", "u1,a.wav,你,0.5,0.9,,0", "u2,a.wav,好,,,0.4,0"]
    rows += ["u3,a.wav,好,0.5,1.0,,1", "u4,a.wav,好,0.5,0.2,,0", "u5,a.wav,好,0.25,,0.75,0"]
    small_corpora.write_text(tmp_path / "in" / "train.csv", "\n".join(rows))
    _build(tmp_path / "in", tmp_path / "out", corpus="table", max_rejected=0.9, num_shards=1)
    records = _records(tmp_path / "out", "train", num_bins=80)
    num_frames = {record["utterance_id"]: len(record["fbank"]) for record in records}
    assert num_frames == {b"u1": 38, b"u5": 73}  # 25 ms frames, every 10 ms, in 400 ms and 750 ms
    assert sorted(_rejected(tmp_path / "out")) == [
        ("u2", "train", "silent audio"),
        ("u3", "train", "silent audio"),
        ("u4", "train", "segment ends at or before its start"),
    ]


def test_frozen_vocabularies(tmp_path):
    first = _build(small_corpora.make_text_corpus(tmp_path / "news"), tmp_path / "text", corpus="text")
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "in")
    both = _build(corpus_dir, tmp_path / "all", vocabulary_dir=str(tmp_path / "text"))
    for name in ("tokens_sha256", "characters_sha256", "readings_sha256"):
        assert getattr(both, name) == getattr(first, name)
    assert both.splits["train"].unknown_tokens == 2 + 5 + 2 + 2  # in 一下 (twice), 今天天气很, 北京
    one = _build(corpus_dir, tmp_path / "tokens", vocabulary=str(tmp_path / "text" / "tokens.txt"))
    assert one.tokens_sha256 == first.tokens_sha256
    assert one.splits["train"].unknown_characters == 0


@pytest.mark.parametrize(
    ("file", "content"), [("config.json", '{"token_type": "character"}'), ("dataset_info.json", None)]
)
def test_a_frozen_vocabulary_of_another_token_type_is_refused(tmp_path, file, content):
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "in")
    _build(corpus_dir, tmp_path / "old", token_type="character")
    if content is not None:  # a model directory has the token type in another file
        os.remove(tmp_path / "old" / "dataset_info.json")
        small_corpora.write_text(tmp_path / "old" / file, content)
    message = f"--vocabulary_dir: .*/old/{file} is character, but this build uses syllable"
    with pytest.raises(errors.UserError, match=message):
        _build(corpus_dir, tmp_path / "out", vocabulary_dir=str(tmp_path / "old"))
    assert not (tmp_path / "out").exists()
    again = _build(corpus_dir, tmp_path / "out", vocabulary_dir=str(tmp_path / "old"), token_type="character")
    assert again.splits["train"].unknown_tokens == 0


def test_test_split_alone_needs_a_frozen_vocabulary(tmp_path):
    small_corpora.write_text(tmp_path / "news" / "test.tsv", "hanzi\tpinyin\n你好\tni3 hao3\n")
    with pytest.raises(errors.UserError, match="no usable train split.*--vocabulary_dir"):
        _build(tmp_path / "news", tmp_path / "out", corpus="text")
    _build(small_corpora.make_text_corpus(tmp_path / "old"), tmp_path / "text", corpus="text")
    info = _build(tmp_path / "news", tmp_path / "out", corpus="text", vocabulary_dir=str(tmp_path / "text"))
    assert (set(info.splits), info.splits["test"].unknown_tokens) == ({"test"}, 0)


@pytest.mark.parametrize(
    "method", [dataset_info.DatasetInfo, vocabulary.Vocabulary, shard_statistics.ShardStatistics]
)
def test_a_full_disk_is_reported_and_the_build_can_be_continued(tmp_path, monkeypatch, method):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "in")
    with monkeypatch.context() as patch:
        patch.setattr(method, "save", fail)
        with pytest.raises(errors.UserError, match=r"written( to)? \(No space left on device\); free"):
            _build(corpus_dir, tmp_path / "out")
    assert _build(corpus_dir, tmp_path / "out").splits["train"].num_utterances == 6


def test_a_directory_whose_name_is_not_utf_8(tmp_path):
    corpus_dir, output_dir = (os.path.join(tmp_path, os.fsdecode(c.encode("gbk"))) for c in "你好")
    os.rename(small_corpora.make_manifest_corpus(tmp_path / "in", 2, 1), corpus_dir)
    info = _build(corpus_dir, output_dir)
    assert (info.splits["train"].num_utterances, info.num_rejected) == (2, 0)
    assert dataset_info.DatasetInfo.load(output_dir) == info


def test_a_missing_dev_split_is_logged(tmp_path, caplog):
    _build(small_corpora.make_manifest_corpus(tmp_path / "in", 2, 0), tmp_path / "out")
    assert "has no dev split" in caplog.text and "pass --dev_fraction=0.05 to move" in caplog.text


def test_a_fraction_of_the_train_speakers_becomes_the_dev_split(tmp_path, caplog):
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "in", 6, 0)
    info = _build(corpus_dir, tmp_path / "out", dev_fraction=0.5)
    sizes = {name: (split.num_utterances, split.num_speakers) for name, split in info.splits.items()}
    assert sizes == {"train": (3, 1), "dev": (3, 1)}
    (speaker,) = {record["speaker"] for record in _records(tmp_path / "out", "dev")}
    assert speaker not in {record["speaker"] for record in _records(tmp_path / "out", "train")}
    assert "has no dev split" not in caplog.text


def test_empty_manifest(tmp_path):
    small_corpora.write_text(tmp_path / "in" / "manifest.tsv", "id\taudio\ttext\n")
    with pytest.raises(errors.UserError, match="contains no utterances"):
        _build(tmp_path / "in", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_speed_copies_are_made_of_the_train_split_and_have_the_speed_in_their_ids(tmp_path):
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "in", 2, 2)
    manifest_file = tmp_path / "in" / "manifest.tsv"
    small_corpora.write_text(manifest_file, "test".join(manifest_file.read_text("utf-8").rsplit("dev", 1)))
    info = _build(corpus_dir, tmp_path / "out", speed_perturb_factors=(0.9, 1.0, 1.25))
    durations = {
        record["utterance_id"].decode(): record["duration_ms"]
        for record in _records(tmp_path / "out", "train", num_bins=80)
    }
    assert durations == {
        **{"u00": 500, "u00~speed0.9": 556, "u00~speed1.25": 400},
        **{"u01": 500, "u01~speed0.9": 556, "u01~speed1.25": 400},
    }
    assert info.splits["dev"].num_utterances == info.splits["test"].num_utterances == 1
    assert (info.splits["train"].num_sentences, info.num_rejected) == (2, 0)
    plain = _build(corpus_dir, tmp_path / "plain")
    assert plain.tokens_sha256 == info.tokens_sha256 and plain.config_sha256 != info.config_sha256
    whole, other = (_records(tmp_path / name, "train", num_bins=80) for name in ("plain", "out"))
    same = {record["utterance_id"]: record["fbank"] for record in other}
    for record in whole:
        np.testing.assert_array_equal(record["fbank"], same[record["utterance_id"]])


def test_copies_without_words_have_sound_but_no_labels_and_pass_verify(tmp_path):
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "in", 4, 2)
    info = _build(corpus_dir, tmp_path / "one", sound_share=0.5, num_shards=1)
    records = {
        each["utterance_id"].decode(): each for each in _records(tmp_path / "one", "train", num_bins=80)
    }
    copies = [
        "u00~sound-music-at14.7dB",
        "u01~wordless-babble",
        "u02~sound-noise-at2.1dB",
        "u03~wordless-tones",
    ]
    assert sorted(records) == sorted(["u00", "u01", "u02", "u03", *copies])
    for name in (copies[1], copies[3]):
        each = records[name]
        assert each["num_tokens"] == each["num_characters"] == 0 and not each["transcript"]
        assert 500 <= each["duration_ms"] <= 10_000 and len(each["fbank"]) > 40
    train = info.splits["train"]
    spoken = sum(each["num_tokens"] for each in records.values())
    assert train.num_sentences == 4
    assert (train.num_utterances, train.num_tokens, info.splits["dev"].num_utterances) == (8, spoken, 2)
    assert records[copies[0]]["duration_ms"] == records["u00"]["duration_ms"] == 500
    assert verify.main(verify.VerifyConfig(data_dir=(str(tmp_path / "one"),), sample=8)) == 0


@pytest.mark.long
def test_copies_through_codecs_are_the_same_for_any_number_of_workers(tmp_path):
    corpus_dir = small_corpora.make_manifest_corpus(tmp_path / "in", 6, 1)
    flags = dict(augmented_copies=3, codecs=tuple(codecs.CHANNELS), num_shards=2)
    for workers in (1, 2):
        _build(corpus_dir, tmp_path / str(workers), num_workers=workers, **flags)
    for name in ("train-00000-of-00002.tfrecord", "train-00001-of-00002.tfrecord"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()
    names = [record["utterance_id"].decode() for record in _records(tmp_path / "1", "train")]
    assert len(names) == 24 and sum("~copy" in name for name in names) == 18


def test_a_codec_that_is_missing_ends_the_build_before_it_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(soundfile, "available_subtypes", lambda container: {})
    message = "^--codecs=opus: libsndfile .* cannot encode opus, which needs 1.1"
    with pytest.raises(errors.UserError, match=message):
        _build(tmp_path / "in", tmp_path / "out", augmented_copies=1, codecs=("opus",))
    assert not (tmp_path / "out").exists()


def test_sentences_that_splits_share_are_counted(tmp_path):
    info = _build(small_corpora.make_manifest_corpus(tmp_path / "in", 6, 2), tmp_path / "out")
    dev, train = info.splits["dev"], info.splits["train"]
    assert (dev.num_sentences, dev.shared_sentences) == (2, {"train": 2})
    assert (train.num_sentences, train.shared_sentences) == (5, {"dev": 2})
    assert (dev.num_speakers, dev.shared_speakers) == (2, {"train": 2})


_TEXT_FLAGS = (  # flags that text corpora do not support, and the errors
    (
        "text",
        {"token_type": "initial_final"},
        "--token_type=initial_final does not support --corpus=text, in",
    ),
    ("text", {"token_type": "character"}, "--token_type=character does not support --corpus=text, in which"),
    ("text", {"token_type": "bpe"}, "each character is paired with a syllable; use syllable or toneless"),
    ("punctuated", {"token_type": "bpe"}, "--token_type=bpe does not support --corpus=punctuated, in "),
    ("punctuated", {"sample_rate": 8000}, "--corpus=punctuated: a text corpus has no audio features; leave"),
    ("text", {"frontend": "log_spectrogram", "hop_ms": 5.0}, "--frontend=log_spectrogram and --hop_ms=5.0"),
)


@pytest.mark.parametrize("corpus, flags, message", _TEXT_FLAGS)
def test_a_text_corpus_refuses_audio_flags_and_unsuitable_token_types(tmp_path, corpus, flags, message):
    with pytest.raises(errors.UserError, match=message):
        _build(tmp_path, tmp_path / "out", corpus=corpus, **flags)


def _make_english_corpus(directory, *sentences):
    small_corpora.write_audio(directory / "a.wav", small_corpora.tone(1.0))
    lines = [f"u{i}\ta.wav\t{sentence}\ttrain" for i, sentence in enumerate(sentences)]
    small_corpora.write_text(directory / "manifest.tsv", "\n".join(["id\taudio\ttext\tsplit", *lines]))
    return directory


def test_subwords_are_learnt_frozen_and_extended(tmp_path, caplog):
    corpus_dir = _make_english_corpus(tmp_path / "in", *["The cat sat.", "A cat", "the mat sat"] * 3)
    info = _build(corpus_dir, tmp_path / "out", token_type="bpe", bpe_vocab_size=30)
    model = (tmp_path / "out" / "bpe.model").read_bytes()
    assert (info.token_type, info.bpe_sha256) == ("bpe", hashlib.sha256(model).hexdigest())
    assert info.splits["train"].unknown_tokens == 0 and not caplog.text.count("lacks")
    tokens = vocabulary.Vocabulary.load(str(tmp_path / "out" / "tokens.txt")).tokens

    more = _make_english_corpus(tmp_path / "more", "the cat eats", "the cat buys")
    frozen = dict(token_type="bpe", vocabulary_dir=str(tmp_path / "out"))
    again = _build(more, tmp_path / "frozen", **frozen)
    assert (again.bpe_sha256, again.tokens_sha256) == (info.bpe_sha256, info.tokens_sha256)
    assert (tmp_path / "frozen" / "bpe.model").read_bytes() == model
    assert again.splits["train"].unknown_tokens == 1  # buy; all letters of eats are subwords
    assert "most frequent tokens missing from the vocabulary: " in caplog.text

    extended = _build(more, tmp_path / "extended", extend_vocabulary=True, **frozen)
    longer = vocabulary.Vocabulary.load(str(tmp_path / "extended" / "tokens.txt")).tokens
    assert longer[: len(tokens)] == tokens and len(longer) > len(tokens)
    assert extended.splits["train"].unknown_tokens == 0


def test_overwriting_a_bpe_build_with_another_token_type_removes_the_bpe_model(tmp_path):
    corpus_dir = _make_english_corpus(tmp_path / "in", "a cat", "the mat")
    _build(corpus_dir, tmp_path / "out", token_type="bpe")
    info = _build(corpus_dir, tmp_path / "out", token_type="character", overwrite=True)
    assert not (tmp_path / "out" / "bpe.model").exists()
    assert info.bpe_sha256 == ""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(corpus_dir=()), "--corpus_dir is missing"),
        (dict(output_dir=""), "--output_dir is missing"),
        (dict(corpus="ted"), "aidatatang_200zh, aishell1, aishell3, common_voice"),
        (dict(num_shards=0), "--num_shards=0"),
        (dict(num_workers=0), "--num_workers=0"),
        (dict(max_rejected=1.5), "--max_rejected=1.5"),
        (dict(max_seconds=0.0), "--max_seconds=0.0"),
        (dict(dev_fraction=0.6), "--dev_fraction=0.6: expected at least 0 and at most 0.5"),
    ],
)
def test_config_refuses(options, message):
    with pytest.raises(errors.UserError, match=message):
        builder.BuildConfig(**{"corpus_dir": ("in",), "output_dir": "out", **options})
