"""python -m estimator_asr.align with an untrained model; the texts are what the model hears."""

import dataclasses
import json
import os
import subprocess
import sys
import types

import numpy as np
import programs
import pytest
import soundfile

from estimator_asr import align
from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving import recording_units
from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.corpora import tables
from tfrecord_builder.storage import locks

HANZI = {"hao3": "好", "ma5": "吗", "ni3": "你", "shi4": "是", "tian1": "天"}
RATE = 16000


@pytest.fixture(scope="module")
def version(tiny_export):
    return recogniser.load_version(tiny_export.version_dir)


@pytest.fixture(autouse=True)
def _load_once(tiny_export, version, monkeypatch):
    monkeypatch.setattr(recogniser, "load_version", {tiny_export.version_dir: version}.get)
    recording_units.load_export.cache_clear()


@pytest.fixture(scope="module")
def recorded(tiny_export, version, tmp_path_factory):
    """A folder with a recording of 12 s and its text, whose sentences have five hanzi each."""
    path = tmp_path_factory.mktemp("recorded")
    waveform = np.concatenate([each[-1] for each in tiny_export.utterances.values()] * 2)[: 12 * RATE]
    (path / "audio" / "sub").mkdir(parents=True)
    soundfile.write(path / "audio" / "sub" / "a.wav", waveform, RATE, subtype="PCM_16")
    heard = version.find("waveform").run({"waveform": waveform[None], "num_samples": [len(waveform)]})
    hanzi = "".join(HANZI.get(token, "") for token in heard["greedy_pinyin"][0].split())
    sentences = [hanzi[i : i + 5] + "。" for i in range(0, len(hanzi) - 4, 5)]
    assert len(sentences) > 5
    (path / "texts" / "sub").mkdir(parents=True)
    (path / "texts" / "sub" / "a.txt").write_text("\n".join(sentences), encoding="utf-8")
    return types.SimpleNamespace(path=path, sentences=sentences)


@pytest.fixture
def flags(tiny_export, recorded, tmp_path):
    folders = {"audio_dir": str(recorded.path / "audio"), "text_dir": str(recorded.path / "texts")}
    return {"saved_model": tiny_export.export_dir, **folders, "output_dir": str(tmp_path / "out")}


def run(flags, **changed):
    return align.main(align.AlignConfig(**{**flags, **changed}))


def read_table(path):
    header, *lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [dict(zip(header, line)) for line in lines]


def test_a_corpus_with_the_text_as_it_was_written(flags, recorded, tmp_path, capsys):
    assert run(flags, min_score=0.0) == 0
    rows = read_table(tmp_path / "out" / "manifest.tsv")
    rejected = read_table(tmp_path / "out" / "rejected.tsv")
    written = "".join(row["text"] for row in sorted(rows + rejected, key=lambda row: float(row["start"])))
    assert written == "".join(recorded.sentences)
    assert list(rows[0]) == ["id", "audio", "speaker", "text", "pinyin", "start", "duration", "score", "cut"]
    for row in rows:
        assert 1 <= float(row["duration"]) <= 15 and float(row["start"]) + float(row["duration"]) <= 12
        assert row["speaker"] == "sub/a"
        assert row["id"] == f"sub/a-{1000 * float(row['start']):08.0f}" and float(row["score"]) > 0.2
        assert os.path.samefile(tmp_path / "out" / row["audio"], recorded.path / "audio" / "sub" / "a.wav")
    utterances = list(tables.list_manifest(str(tmp_path / "out")))
    assert [utterance.start_seconds for utterance in utterances] == [float(row["start"]) for row in rows]
    assert f"kept {len(rows)} utterances, 0.00 hours: " in capsys.readouterr().out


@pytest.mark.long
def test_the_corpus_can_be_built(flags, tmp_path, monkeypatch):
    assert run(flags, min_score=0.0) == 0
    words = ["--corpus=manifest", f"--corpus_dir={tmp_path / 'out'}", f"--output_dir={tmp_path / 'data'}"]
    done = programs.run("tfrecord_builder.build", *words, "--num_workers=1")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data" / "dataset_info.json").exists()


def write_text(path, sentences):
    """Writes the text of the recording sub/a; returns the flag that names its folder."""
    (path / "sub").mkdir(parents=True, exist_ok=True)
    (path / "sub" / "a.txt").write_text("".join(sentences), encoding="utf-8")
    return {"text_dir": str(path)}


def test_another_minimum_score_recognises_nothing_again(flags, recorded, tmp_path, monkeypatch):
    """One hanzi in each sentence is replaced, so that scores are lower than 1."""
    changed = [f"{sentence[:2]}天{sentence[3:]}" for sentence in recorded.sentences]
    flags |= write_text(tmp_path / "texts", changed)
    assert run(flags, min_score=0.0) == 0
    rows = read_table(tmp_path / "out" / "manifest.tsv")
    assert len(rows) > 2 and all(0.05 < float(row["score"]) < 1 for row in rows)
    monkeypatch.setattr(recogniser, "load_version", None)
    assert run(flags, min_score=1.0) == 0
    rejected = read_table(tmp_path / "out" / "rejected.tsv")
    assert sum(row["problem"] == "score is below 1" for row in rejected) == len(rows)
    assert read_table(tmp_path / "out" / "manifest.tsv") == []


def test_times_of_words_are_written_again_in_another_format(flags, recorded, tmp_path, monkeypatch):
    assert run(flags, min_score=0.0, format=("json", "ctm")) == 0
    result = json.loads((tmp_path / "out" / "times" / "sub" / "a.json").read_text(encoding="utf-8"))
    texts = [row["text"] for row in read_table(tmp_path / "out" / "manifest.tsv")]
    assert [utterance["text"] for utterance in result["utterances"]] == texts
    words = [word for utterance in result["utterances"] for word in utterance["words"]]
    assert "".join(word["text"] for word in words) == "".join(texts).replace("。", "")
    syllables = {hanzi: token[:-1] for token, hanzi in HANZI.items()}
    assert all(word["tokens"][0]["token"][:-1] == syllables[word["text"]] for word in words)  # ignores tones
    assert all(first["end"] <= second["start"] for first, second in zip(words, words[1:]))
    assert 0 <= words[0]["start"] and words[-1]["end"] <= 12.2  # 0.2 s after the last emission
    monkeypatch.setattr(recogniser, "load_version", None)
    assert run(flags, min_score=0.0, format=("textgrid", "srt", "vtt")) == 0
    names = ["a.TextGrid", "a.srt", "a.vtt"]  # the files of the first run are gone
    assert sorted(os.listdir(tmp_path / "out" / "times" / "sub")) == names
    (tmp_path / "out" / "times" / "notes.txt").touch()
    assert run(flags, min_score=0.0) == 0
    assert os.listdir(tmp_path / "out" / "times" / "sub") == []
    assert (tmp_path / "out" / "times" / "notes.txt").exists()


def test_results_of_an_earlier_version_without_words_are_made_again(flags, tmp_path):
    assert run(flags, min_score=0.0) == 0
    (job,) = (tmp_path / "out" / ".align").iterdir()
    job.rename(job.with_name(job.name.removesuffix("-spoken")))
    assert run(flags, min_score=0.0, format=("ctm",)) == 0
    assert (tmp_path / "out" / "times" / "sub" / "a.ctm").read_text(encoding="utf-8")


def test_utterances_below_the_minimum_score_have_no_times(flags, recorded, tmp_path):
    changed = [f"{sentence[:2]}天{sentence[3:]}" for sentence in recorded.sentences]
    flags |= write_text(tmp_path / "texts", changed)
    assert run(flags, min_score=0.0, format=("ctm",)) == 0
    assert run(flags, min_score=1.0, format=("srt",)) == 0
    assert os.listdir(tmp_path / "out" / "times" / "sub") == []


def test_a_format_that_does_not_exist_is_refused(flags):
    message = "--format=textgrid,elan: expected one of textgrid, ctm, json, srt, vtt"
    with pytest.raises(errors.UserError, match=message):
        run(flags, format=("textgrid", "elan"))


def test_a_changed_text_is_aligned_again(flags, recorded, tmp_path):
    for sentences in (recorded.sentences, recorded.sentences[:-2]):
        flags |= write_text(tmp_path / "texts", sentences)
        assert run(flags, min_score=0.0) == 0
        tables = (read_table(tmp_path / "out" / name) for name in ("manifest.tsv", "rejected.tsv"))
        assert sum(len(row["text"]) for table in tables for row in table) == 6 * len(sentences)


def link(recorded, path, name):
    """Links the recording and its text under another name; returns the flags for their folders."""
    for folder, suffix in (("audio", ".wav"), ("texts", ".txt")):
        target = path / folder / f"{name}{suffix}"
        target.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(recorded.path / folder / "sub" / f"a{suffix}", target)
    return {"audio_dir": str(path / "audio"), "text_dir": str(path / "texts")}


def test_files_without_a_counterpart_are_named_and_the_others_are_aligned(flags, recorded, tmp_path, capsys):
    folders = link(recorded, tmp_path, "sub/a")
    for name in ("b.wav", "d.wav", "._e.wav", "c.txt", "d.txt", "._e.txt"):
        (tmp_path / ("audio" if name.endswith("wav") else "texts") / name).write_bytes(b"")
    assert run(flags, **folders, min_score=0.0) == 1
    assert [line for line in capsys.readouterr().err.splitlines() if str(tmp_path) in line] == [
        f"warning: {tmp_path}/audio/b.wav has no text b.txt in --text_dir; it is skipped",
        f"warning: {tmp_path}/texts/c.txt has no recording of this name in --audio_dir; it is skipped",
        f"error: {tmp_path}/texts/d.txt contains no words; write what is said in the recording into it",
    ]
    assert read_table(tmp_path / "out" / "manifest.tsv")


def test_a_list_of_recordings_and_texts(flags, recorded, tmp_path, capsys):
    (tmp_path / "list.tsv").write_text(
        f"{recorded.path}/audio/sub/a.wav\t{recorded.path}/texts/sub/a.txt\n\nnone.wav\tnone.txt\n"
    )
    flags |= {"audio_dir": None, "text_dir": None, "pairs": str(tmp_path / "list.tsv")}
    assert run(flags, min_score=0.0) == 1
    assert f"error: {tmp_path}/none.txt: file does not exist; pass a text file" in capsys.readouterr().err
    rows = read_table(tmp_path / "out" / "manifest.tsv")
    assert rows and {row["id"].rpartition("-")[0] for row in rows} == {f"{recorded.path}/audio/sub/a"}


def test_links_in_the_paths_of_a_list_are_resolved(flags, recorded, tmp_path):
    """`..` after a link is the parent of the link's target."""
    (tmp_path / "deep" / "lists").mkdir(parents=True)
    (tmp_path / "deep" / "list.tsv").write_text("link/../audio/sub/a.wav\tlink/../texts/sub/a.txt\n")
    os.symlink(recorded.path / "audio", tmp_path / "deep" / "link")
    os.symlink(tmp_path / "deep" / "lists", tmp_path / "lists")
    flags |= {"audio_dir": None, "text_dir": None, "pairs": str(tmp_path / "lists" / ".." / "list.tsv")}
    assert run(flags, min_score=0.0) == 0
    for row in read_table(tmp_path / "out" / "manifest.tsv"):
        assert os.path.samefile(tmp_path / "out" / row["audio"], recorded.path / "audio" / "sub" / "a.wav")


def test_links_in_the_paths_of_folders_are_resolved(flags, recorded, tmp_path):
    os.symlink(recorded.path / "audio" / "sub", tmp_path / "link")
    folders = {"audio_dir": str(tmp_path / "link" / ".."), "text_dir": str(recorded.path / "texts")}
    assert run(flags, **folders, min_score=0.0) == 0


def test_the_manifest_is_written_last(flags, monkeypatch):
    names, save_table = [], recordings.save_table
    monkeypatch.setattr(
        recordings,
        "save_table",
        lambda path, *rest: names.append(os.path.basename(path)) or save_table(path, *rest),
    )
    monkeypatch.setattr(align, "_write_times", lambda *_: names.append("times"))
    assert run(flags, min_score=0.0) == 0
    assert names == ["times", "rejected.tsv", "manifest.tsv"]


@pytest.mark.parametrize(
    "lines, problem",
    [
        ("a.wav\ta.txt\na.mp3\tb.txt", "line 2 names a recording again"),
        ("a.wav", "line 1 is not a recording and a text"),
        ("a.wav\ta.txt\tb.txt", "line 1 is not a recording and a text"),
    ],
)
def test_a_list_that_is_invalid_is_refused(flags, tmp_path, lines, problem):
    (tmp_path / "list.tsv").write_text(lines)
    flags |= {"audio_dir": None, "text_dir": None, "pairs": str(tmp_path / "list.tsv")}
    with pytest.raises(errors.UserError, match=f"list.tsv: {problem}; write one recording and its text, sep"):
        run(flags)


@pytest.mark.parametrize(
    "changed", [{"pairs": "list.tsv"}, {"text_dir": None}, {"corpus_dir": ("c",)}, {"data_dir": ("d",)}]
)
def test_sources_exclude_each_other(flags, changed):
    message = "pass either --audio_dir and --text_dir, or --pairs, or --corpus_dir, or --data_dir"
    with pytest.raises(errors.UserError, match=message):
        run(flags, **changed)


def test_two_recordings_of_one_name_are_refused(flags, tmp_path):
    (tmp_path / "audio" / "sub").mkdir(parents=True)
    for name in ("a.wav", "a.mp3"):
        (tmp_path / "audio" / "sub" / name).touch()
    message = "sub/a.* and .*sub/a.* have the same name apart from the extension"
    with pytest.raises(errors.UserError, match=message):
        run(flags, audio_dir=str(tmp_path / "audio"))


def test_the_text_of_another_recording_leaves_an_empty_corpus_at_most(flags, recorded, tmp_path, capsys):
    other = ["中国人民银行成立于一九四八年十二月一日。"]
    assert run(flags, **write_text(tmp_path / "texts", other)) == 1
    problem = "a.txt does not match the speech: only 0% of the tokens agree (minimum: 10%)"
    sentence = f"{problem}; replace it with the text of this recording"
    assert sentence in capsys.readouterr().err
    assert os.listdir(tmp_path / "out") == [".align"]
    assert run(flags, **write_text(tmp_path / "texts", recorded.sentences), min_score=0.0) == 0
    assert run(flags, **write_text(tmp_path / "texts", other)) == 1
    assert read_table(tmp_path / "out" / "manifest.tsv") == []  # the utterances of the earlier text are gone
    (row,) = read_table(tmp_path / "out" / "rejected.tsv")
    assert sentence in row["problem"] and row["audio"].endswith("sub/a.wav") and row["seconds"] == ""


def test_a_path_that_a_manifest_cannot_contain_is_rejected(flags, recorded, tmp_path):
    assert run(flags, **link(recorded, tmp_path, "a\tb"), min_score=0.0) == 0
    problems = {row["problem"] for row in read_table(tmp_path / "out" / "rejected.tsv")}
    assert problems == {"path contains a tab, a line break or bytes that are not UTF-8"}


@pytest.mark.long
def test_two_processes_write_the_bytes_of_one_and_a_broken_recording_changes_nothing(
    flags, recorded, tmp_path, tiny_export, capfd
):
    for number in range(5):
        folders = link(recorded, tmp_path, str(number))
    (tmp_path / "audio" / "2.wav").unlink()
    (tmp_path / "audio" / "2.wav").write_text("no audio")
    words = [f"--saved_model={tiny_export.export_dir}", "--min_score=0"]
    words += [f"--{name}={folder}" for name, folder in folders.items()]
    tables = []
    for workers in (1, 2):
        out = tmp_path / f"out{workers}"
        command = [sys.executable, "-m", "estimator_asr.align", *words]
        command += [f"--output_dir={out}", f"--num_workers={workers}"]
        done = subprocess.run(command, cwd=programs.ROOT, capture_output=True, text=True)
        assert done.returncode == 1 and "2.wav: the file cannot be read as WAV" in done.stderr
        tables.append([(out / name).read_bytes() for name in ("manifest.tsv", "rejected.tsv")])
    assert tables[0] == tables[1]
    starts = {row["id"][:1] for row in read_table(tmp_path / "out1" / "manifest.tsv")}
    assert starts == {"0", "1", "3", "4"}
    problems = {row["audio"][-5:]: row["problem"] for row in read_table(tmp_path / "out1" / "rejected.tsv")}
    assert "2.wav: the file cannot be read as WAV" in problems["2.wav"]


def test_another_align_in_the_directory_is_refused(flags, tmp_path):
    (tmp_path / "out").mkdir()
    message = "--output_dir: another align is writing to .*out; wait until"
    with locks.exclusive(str(tmp_path / "out"), "busy"), pytest.raises(errors.UserError, match=message):
        run(flags)


def test_folders_that_do_not_fit_are_refused(flags, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.UserError, match="--text_dir=.*empty has no usable text for any recording;"):
        run(flags, text_dir=str(tmp_path / "empty"))
    with pytest.raises(errors.UserError, match="--text_dir=.*none is not a directory; pass a folder"):
        run(flags, text_dir=str(tmp_path / "none"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    message = "out contains mine, but was not written by this version of align; choose"
    with pytest.raises(errors.UserError, match=message):
        run(flags)


def test_an_export_of_an_earlier_release_is_refused(flags, version, monkeypatch):
    old = {name: value for name, value in version.definitions.items() if name != "log_probs"}
    monkeypatch.setattr(
        recogniser, "load_version", lambda path: dataclasses.replace(version, definitions=old)
    )
    message = "earlier release, without the signature log_probs; export the"
    with pytest.raises(errors.UserError, match=message):
        run(flags)
