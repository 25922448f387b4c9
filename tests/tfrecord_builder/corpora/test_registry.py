import errno
import os
import re
import shutil
import textwrap

import corpus_trees
import paths
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.corpora import registry, transcript_files
from tfrecord_builder.data import manifest


def _list(corpus, *directories):
    return list(registry.list_utterances(corpus, [str(directory) for directory in directories]))


def test_speakers_of_several_directories_stay_distinct(tmp_path):
    first = small_corpora.make_manifest_corpus(tmp_path / "one", 1, 0, prefix="x")
    second = small_corpora.make_manifest_corpus(tmp_path / "two", 1, 0, prefix="y")
    named = [(u.utterance_id, u.speaker) for u in _list("manifest", first, second)]
    assert named == [("x00", "one/a"), ("y00", "two/a")]


def test_text(tmp_path):
    found = _list("text", small_corpora.make_text_corpus(tmp_path / "news"))
    assert [u.utterance_id for u in found] == ["news-train-2", "news-train-3", "news-train-4", "news-dev-2"]
    assert {u.speaker for u in found} == {"news"}
    assert (found[1].audio, found[1].text, found[1].pinyin) == (None, "谢谢", "xie4 xie5")


def test_directories_of_one_name_are_named_with_their_parents(tmp_path):
    texts = [small_corpora.make_text_corpus(tmp_path / name / "text") for name in "ab"]
    found = _list("text", *texts)
    assert [u.utterance_id for u in found][::4] == ["a/text-train-2", "b/text-train-2"]
    assert {u.speaker for u in found} == {"a/text", "b/text"}
    first = small_corpora.make_manifest_corpus(tmp_path / "x" / "corpus", 1, 0, prefix="x")
    second = small_corpora.make_manifest_corpus(tmp_path / "y" / "corpus", 1, 0, prefix="y")
    assert [u.speaker for u in _list("manifest", first, second + "/")] == ["x/corpus/a", "y/corpus/a"]


def test_a_directory_at_the_root_is_named_without_it():
    assert registry._name_directories(["/text", "/data/text"], "--corpus_dir") == ["text", "data/text"]


def test_two_tables_of_one_split_are_refused(tmp_path):
    small_corpora.make_text_corpus(tmp_path)
    (tmp_path / "training.tsv").write_bytes((tmp_path / "train.tsv").read_bytes())
    problem = r"some of train\.tsv, training\.tsv, .* belong to the same split; merge them into one file per"
    with pytest.raises(errors.UserError, match=problem):
        _list("text", tmp_path)


def test_a_duplicate_directory_is_refused(tmp_path):
    message = "--corpus_dir: .* contains a duplicate; pass each directory once"
    with pytest.raises(errors.UserError, match=message):
        _list("text", tmp_path, f"{tmp_path}/")


def test_a_directory_whose_name_is_not_utf_8(tmp_path):
    corpus_dir = os.path.join(tmp_path, os.fsdecode("你".encode("gbk")))
    found = _list("text", small_corpora.make_text_corpus(corpus_dir))
    assert (found[0].utterance_id, found[0].speaker) == (r"\xc4\xe3-train-2", r"\xc4\xe3")


def test_ids_and_speakers_stay_on_one_line(tmp_path):
    line = r'{"id": "u\n\t1", "audio": "a.wav", "text": "好", "speaker": "s\u0085\u001b"}'
    small_corpora.write_text(tmp_path / "metadata.jsonl", f"{line}\n")
    (found,) = _list("table", tmp_path)
    assert (found.utterance_id, found.speaker) == (r"u\n\t1", r"s\x85\x1b")


def test_text_by_a_url(tmp_path):
    directory = small_corpora.make_text_corpus(tmp_path / "news")
    assert _list("text", f"file://{directory}") == _list("text", directory)


def test_a_url_of_a_recording_stays(tmp_path):
    small_corpora.write_text(tmp_path / "manifest.tsv", "id\taudio\ttext\nu1\ts3://in/u1.wav\t好\n")
    assert _list("manifest", tmp_path)[0].audio == "s3://in/u1.wav"


def test_text_without_files_or_columns(tmp_path):
    with pytest.raises(errors.UserError, match="found no text corpus, expected train.tsv"):
        _list("text", tmp_path)
    small_corpora.write_text(tmp_path / "dev.tsv", "hanzi\n你\n")
    with pytest.raises(errors.UserError, match="dev.tsv: found hanzi, but no pinyin"):
        _list("text", tmp_path)


def test_the_words_of_a_dictionary_are_sentences(tmp_path):
    """The lines are from jieba's dict.txt (0.42.1). Words that do not consist of hanzi are left out."""
    lines = ["AT&T 3 nz", "B超 3 n", "一 217830 m", "一一 1670 m", "一丁点 3 m", "", "龟", "三K党 4 nt"]
    small_corpora.write_text(tmp_path / "dict.txt", "\n".join(lines) + "\n")
    name = tmp_path.name
    want = [
        manifest.Utterance(f"{name}-word-{number}", None, name, word, "", "train")
        for number, word in ((4, "一一"), (5, "一丁点"))
    ]
    assert _list("text", tmp_path) == want
    assert _list("text", small_corpora.make_text_corpus(tmp_path))[4:] == want


def test_a_dictionary_without_hanzi_is_refused(tmp_path):
    small_corpora.write_text(tmp_path / "dict.txt", "hello HH AH L OW\n")
    message = "dict.txt: no line begins with a word of two or more hanzi, so the file is not a word list like"
    with pytest.raises(errors.UserError, match=f"{message} jieba's; remove the file.$"):
        _list("text", tmp_path)


def test_transcripts_in_another_encoding(tmp_path):
    small_corpora.make_thchs30_corpus(tmp_path / "thchs30")
    (tmp_path / "thchs30" / "data" / "A11_0.wav.trn").write_bytes("绿\nlv4\n".encode("gbk"))
    with pytest.raises(errors.UserError, match="A11_0.wav.trn: byte 0 is not UTF-8. The file must be UTF-8"):
        _list("thchs30", tmp_path / "thchs30")
    small_corpora.make_aishell1_corpus(tmp_path / "aishell1")
    transcript = tmp_path / "aishell1" / "transcript" / "aishell_transcript_v0.8.txt"
    transcript.write_bytes("BAC009S0002W0122 而 对 楼市\n".encode("gbk"))
    assert _list("aishell1", tmp_path / "aishell1")[0].text == "而 对 楼市"


def test_a_directory_without_permission(tmp_path, monkeypatch):
    def deny(path):
        raise PermissionError(errno.EACCES, "Permission denied", path)

    small_corpora.make_thchs30_corpus(tmp_path)
    monkeypatch.setattr(os, "listdir", deny)
    message = r"--corpus_dir: .*/train cannot be read \(Permission denied\); change"
    with pytest.raises(errors.UserError, match=message):
        _list("thchs30", tmp_path)


def test_missing_directory(tmp_path):
    with pytest.raises(errors.UserError, match="--corpus_dir: .*/nowhere does not exist"):
        _list("manifest", tmp_path / "nowhere")


def _make(corpus, directory):
    name = f"make_{corpus}_corpus"
    return getattr(corpus_trees if hasattr(corpus_trees, name) else small_corpora, name)(directory)


@pytest.mark.parametrize("corpus", sorted(set(registry.CORPORA) - set(registry.WITHOUT_AUDIO)))
def test_every_corpus_lists_recordings_of_its_own(tmp_path, corpus):
    found = _list(corpus, _make(corpus, tmp_path))
    assert len({u.utterance_id for u in found}) == len(found) > 0
    assert {u.split for u in found} <= {"train", "dev", "test"}
    recordings = [u for u in found if os.path.isfile(u.audio)]
    assert any(u.text and u.speaker for u in recordings)
    assert all(u.text for u in found if u not in recordings)  # transcripts without a recording


# Id, speaker, split, text, pinyin and audio path of each utterance. If a corpus lacks a transcript or a
# recording, the text is empty or the audio file does not exist, and the build rejects the utterance.
LISTED = {
    "aishell1": """
    BAC009S0002W0122 | S0002 | train | 而 对 楼市 | | wav/train/S0002/BAC009S0002W0122.wav
    BAC009S0724W0121 | S0724 | dev | 广州市 | | wav/dev/S0724/BAC009S0724W0121.wav
    BAC009S0764W0121 | S0764 | test | | | wav/test/S0764/BAC009S0764W0121.wav
    BAC009S9999W0001 | S9999 | test | 没有 录音 | | wav/test/S9999/BAC009S9999W0001.wav
    """,
    "aidatatang_200zh": """
    T0055G0013S0001 | G0013 | train | 以后 你 是 男孩子 | | corpus/train/G0013/T0055G0013S0001.wav
    T0055G0002S0001 | G0002 | dev | 看看 我 的 日程表 | | corpus/dev/G0002/T0055G0002S0001.wav
    T0055G0036S0001 | G0036 | test | 谢谢 | | corpus/test/G0036/T0055G0036S0001.wav
    T0055G0002S0002 | G0002 | dev | 没有 录音 | | corpus/dev/G0002/T0055G0002S0002.wav
    T0055G9999S0001 | G9999 | train | 没有 人 | | corpus/train/G9999/T0055G9999S0001.wav
    """,
    "aishell3": """
    SSB00050001 | SSB0005 | train | 广 州 | guang3 zhou1 | train/wav/SSB0005/SSB00050001.wav
    SSB00050002 | SSB0005 | train | 一 点儿 | yi1 dianr3 | train/wav/SSB0005/SSB00050002.wav
    SSB06930002 | SSB0693 | test | 武 术 | wu3 shu4 | test/wav/SSB0693/SSB06930002.wav
    """,
    "magicdata": """
    38_5716_01 | 38_5716 | train | 嗨天气寒冷记得添衣保暖哦 | | train/38_5716/38_5716_01.wav
    38_5716_02 | 38_5716 | train | | | train/38_5716/38_5716_02.wav
    5_1812_01 | 5_1812 | dev | 你好 | | dev/5_1812/5_1812_01.wav
    5_1812_02 | 5_1812 | dev | 没有录音 | | dev/5_1812/5_1812_02.wav
    15_2222_01 | 15_2222 | test | 谢谢 | | test/15_2222/15_2222_01.wav
    """,
    # The first of two entries for a file is used; the names of folders are not speakers.
    "primewords": """
    00a1ca32 | 7 | train | 你好 谢谢 | | audio_files/0/00/00a1ca32.wav
    5732d955 | | train | | | audio_files/5/57/5732d955.wav
    0eb1f442 | 9 | train | 没有录音 | | audio_files/0/0e/0eb1f442.wav
    """,
    "thchs30": """
    A11_0 | A11 | train | 绿 是 阳春 | lv4 shi4 yang2 chun1 | data/A11_0.wav
    B6_250 | B6 | dev | 绿 是 阳春 | lv4 shi4 yang2 chun1 | data/B6_250.wav
    D4_750 | D4 | test | 绿 是 阳春 | lv4 shi4 yang2 chun1 | data/D4_750.wav
    """,
    "st_cmds": """
    20170001P00001A0001 | P00001A | train | 你好 | | 20170001P00001A0001.wav
    20170001P00001I0001 | P00001I | train | 今天 天气很好 | | 20170001P00001I0001.wav
    20170001P00002A0001 | P00002A | train | | | 20170001P00002A0001.wav
    20170001P00003A0001 | P00003A | train | 没有录音 | | 20170001P00003A0001.wav
    """,
    "librispeech": """
    84-121123-0000 | 84 | dev | GO DO YOU HEAR | | dev-clean/84/121123/84-121123-0000.flac
    367-130732-0000 | 367 | test | LOBSTERS AND LOBSTERS | | test-other/367/130732/367-130732-0000.flac
    103-1240-0000 | 103 | train | CHAPTER ONE | | train-clean-100/103/1240/103-1240-0000.flac
    103-1240-0001 | 103 | train | THAT HAD ITS SOURCE | | train-clean-100/103/1240/103-1240-0001.flac
    103-1240-0002 | 103 | train | | | train-clean-100/103/1240/103-1240-0002.flac
    """,
    # Quotes are characters.
    "common_voice": """
    common_voice_zh-CN_18524189 | 9f3c | train | "包应登，字稺升。 | | clips/common_voice_zh-CN_18524189.mp3
    common_voice_zh-CN_18531538 | 0b1d | dev | 你好 | | clips/common_voice_zh-CN_18531538.mp3
    common_voice_zh-CN_33655758 | 77aa | test | 谢谢 | | clips/common_voice_zh-CN_33655758.mp3
    """,
    # The normalised transcript takes precedence.
    "ljspeech": """
    LJ001-0007 | LJ | train | "printed", about fourteen fifty-five, | | wavs/LJ001-0007.wav
    LJ001-0008 | LJ | train | has never been surpassed. | | wavs/LJ001-0008.wav
    """,
}


@pytest.mark.parametrize("corpus", LISTED)
def test_recordings_are_listed_and_transcripts_without_one(tmp_path, corpus):
    expected = []
    for line in LISTED[corpus].strip().splitlines():
        name, speaker, split, text, pinyin, audio = (value.strip() for value in line.split("|"))
        expected.append(manifest.Utterance(name, str(tmp_path / audio), speaker, text, pinyin, split))
    assert _list(corpus, _make(corpus, tmp_path)) == expected


# Corpus | what is removed from it | the directory that is passed, relative to the corpus | message
REFUSED = """
aishell1 | transcript | . | aishell_transcript_v0.8.txt: file does not exist
aishell1 | wav | . | found none of AISHELL-1's folders wav/train, wav/dev and wav/test; unpack the
aidatatang_200zh | | .. | found no .*corpus/test, but aidatatang_200zh has .*; pass .* aidatatang_200zh itself
aidatatang_200zh | corpus/dev | . | corpus: found no corpus/dev, but
aidatatang_200zh | corpus/dev transcript | . | aidatatang_200_zh_transcript.txt or corpus/dev, but
aishell3 | | .. | found no train/wav or test/wav, but AISHELL-3 has train/wav and test/wav; pass the directory
aishell3 | train/content.txt | . | content.txt: file does not exist; pass the dir
aishell3 | test | . | corpus: found no test/wav, but
magicdata | | dev/5_1812 | 5_1812: found none of MAGICDATA's folders train, dev and test; unpack train_set
magicdata | dev/TRANS.txt | . | dev/TRANS.txt: file does not exist; unpack train
primewords | | .. | found no set1_transcript.json or audio_files, but Primewords Set 1 has .*; pass .* itself
primewords | set1_transcript.json | . | found no set1_transcript.json, but
thchs30 | data/D4_750.wav.trn | . | D4_750.wav.trn: file does not exist
thchs30 | test | . | found no test, but THCHS-30 has data, train, dev and test
librispeech | | .. | found no LibriSpeech parts such as train-clean-100; pass
librispeech | | dev-clean | found no LibriSpeech parts such as train-clean-100; pass
librispeech | dev-clean/84/121123/84-121123.trans.txt | . | 84-121123.trans.txt: file does not exist; unpack
common_voice | | .. | found none of Common Voice's tables train.tsv, dev.tsv and test.tsv; pass the directory
common_voice | clips | . | corpus: found no clips, but Common Voice has train.tsv, .* and clips;
"""


@pytest.mark.parametrize("line", REFUSED.strip().splitlines(), ids=lambda line: line.split()[0])
def test_incomplete_and_other_directories_are_refused(tmp_path, line):
    corpus, removed, passed, message = (value.strip() for value in line.split("|"))
    _make(corpus, tmp_path / "corpus")
    for name in removed.split():
        path = tmp_path / "corpus" / name
        shutil.rmtree(path) if path.is_dir() else os.remove(path)
    with pytest.raises(errors.UserError, match=message):
        _list(corpus, os.path.normpath(tmp_path / "corpus" / passed))


def test_the_reader_that_contributing_md_shows(tmp_path):
    page = (paths.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = textwrap.dedent(re.search(r"( *# VCTK.*?)\n *```", page, re.DOTALL).group(1))
    reader = dict(vars(transcript_files))
    exec(code, reader)
    for speaker in ("p225", "p315"):
        path = tmp_path / "wav48_silence_trimmed" / speaker / f"{speaker}_001_mic1.flac"
        small_corpora.write_audio(path, small_corpora.tone(0.1))
    small_corpora.write_text(tmp_path / "txt" / "p225" / "p225_001.txt", "Please call Stella.\n")
    found, other = reader["list_vctk"](str(tmp_path))
    assert (found.utterance_id, found.speaker, found.text) == ("p225_001", "p225", "Please call Stella.")
    assert other.text == ""
    with pytest.raises(errors.UserError, match="pass the directory VCTK-Corpus-0.92"):
        list(reader["list_vctk"](str(tmp_path / "txt")))
