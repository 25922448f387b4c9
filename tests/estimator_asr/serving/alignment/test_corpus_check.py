"""python -m estimator_asr.align with a corpus; its transcripts are what an untrained model hears."""

import os
import types

import numpy as np
import programs
import pytest
import soundfile

from estimator_asr import align
from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving import recording_units
from estimator_asr.serving.alignment import corpus_check, utterances
from estimator_asr.serving.transcripts import recordings
from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files

HANZI = {"hao3": "好", "ma5": "吗", "ni3": "你", "shi4": "是", "tian1": "天"}
RATE = 16000
NUM_UTTERANCES = 8


@pytest.fixture(scope="module")
def version(tiny_export):
    return recogniser.load_version(tiny_export.version_dir)


@pytest.fixture(autouse=True)
def _load_once(tiny_export, version, monkeypatch):
    monkeypatch.setattr(recogniser, "load_version", {tiny_export.version_dir: version}.get)
    recording_units.load_export.cache_clear()


@pytest.fixture(scope="module")
def texts(tiny_export, version):
    """Pairs of a waveform and the hanzi that the model hears in it."""
    waveforms = [each[-1] for each in tiny_export.utterances.values()]
    joined = np.concatenate(waveforms * (1 + 30 * RATE // sum(map(len, waveforms))))
    heard = []
    for number in range(NUM_UTTERANCES):
        waveform = joined[number * 2 * RATE :][: (2 * RATE + 3000 * number)]
        result = version.find("waveform").run({"waveform": waveform[None], "num_samples": [len(waveform)]})
        hanzi = "".join(HANZI.get(token, "") for token in result["greedy_pinyin"][0].split())
        heard.append((waveform, hanzi))
    return heard


@pytest.fixture
def corpus(tiny_export, texts, tmp_path):
    """A corpus in which the recording of utterance u3 is silent, and the flags of align."""
    (tmp_path / "corpus").mkdir()
    rows = ["id\taudio\ttext"]
    for number, (waveform, hanzi) in enumerate(texts):
        samples = 0 * waveform if number == 3 else waveform
        soundfile.write(tmp_path / "corpus" / f"{number}.wav", samples, RATE, subtype="PCM_16")
        rows.append(f"u{number}\t{number}.wav\t{hanzi}")
    flags = {"saved_model": tiny_export.export_dir, "corpus_dir": (str(tmp_path / "corpus"),)}
    flags["output_dir"] = str(tmp_path / "out")
    write_manifest(tmp_path, rows)
    return types.SimpleNamespace(path=tmp_path, rows=rows, flags=flags)


def write_manifest(path, rows):
    (path / "corpus" / "manifest.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def run(corpus, **changed):
    return align.main(align.AlignConfig(**{**corpus.flags, **changed}))


def read_table(corpus, name):
    header, *lines = [
        line.split("\t") for line in (corpus.path / "out" / name).read_text(encoding="utf-8").splitlines()
    ]
    return [dict(zip(header, line)) for line in lines]


def test_scores_suspects_and_a_page(corpus, texts, capsys):
    assert run(corpus, min_score=0.0) == 0
    scores, found = (read_table(corpus, name) for name in ("scores.tsv", "suspects.tsv"))
    assert [row["id"] for row in scores] == [f"u{number}" for number in range(NUM_UTTERANCES)]
    for number, (row, (waveform, hanzi)) in enumerate(zip(scores, texts)):
        assert row["audio"] == str(corpus.path / "corpus" / f"{number}.wav") and row["text"] == hanzi
        assert float(row["duration"]) == pytest.approx(len(waveform) / RATE, abs=0.001)
        assert len(row["tokens"].split()) == len(hanzi)
        assert number == 3 or float(row["score"]) > 0.6  # below 1, because some heard tokens have no hanzi
    columns = ["id", "audio", "start", "duration", "score", "fault", "text", "heard", "words"]
    assert list(found[0]) == columns and "u3" in {row["id"] for row in found}
    page = (corpus.path / "out" / "suspects.html").read_text(encoding="utf-8")
    assert page.count("<audio") == len(found) and page.count("data:audio/mpeg") == len(found)
    assert f"{len(found)} of {NUM_UTTERANCES} utterances are suspicious: " in capsys.readouterr().out


def test_suspects_come_worst_first_and_another_minimum_recognises_nothing_again(corpus, monkeypatch):
    assert run(corpus, min_score=0.0) == 0
    monkeypatch.setattr(recogniser, "load_version", None)
    recording_units.load_export.cache_clear()
    assert run(corpus, min_score=1.0) == 0
    found = read_table(corpus, "suspects.tsv")
    below = [row for row in read_table(corpus, "scores.tsv") if float(row["score"]) < 1]
    assert len(found) == len(below) and {row["id"] for row in found} == {row["id"] for row in below}
    scores = [float(row["score"]) for row in found]
    assert scores == sorted(scores) and "unclear" in {row["fault"] for row in found}


def test_only_a_changed_transcript_is_recognised_again(corpus, monkeypatch):
    assert run(corpus) == 0
    before = {row["id"]: row for row in read_table(corpus, "scores.tsv")}
    read, names = audio_files.read_audio, []
    monkeypatch.setattr(
        audio_files,
        "read_audio",
        lambda path, *rest: names.append(os.path.basename(path)) or read(path, *rest),
    )
    monkeypatch.setattr(corpus_check, "clips", types.SimpleNamespace(embed=lambda shown, names: {}))
    corpus.rows[2] = f"{corpus.rows[2][:-2]}天天"
    write_manifest(corpus.path, corpus.rows)
    assert run(corpus) == 0 and names == ["1.wav"]
    after = {row["id"]: row for row in read_table(corpus, "scores.tsv")}
    assert {name for name in after if after[name] != before[name]} == {"u1"}


def test_segments_of_one_recording_are_scored_as_they_are_alone(corpus, texts):
    assert run(corpus) == 0
    alone = [(row["score"], row["heard"]) for row in read_table(corpus, "scores.tsv")]
    waveforms = [0 * waveform if number == 3 else waveform for number, (waveform, _) in enumerate(texts)]
    soundfile.write(corpus.path / "corpus" / "all.wav", np.concatenate(waveforms), RATE, subtype="PCM_16")
    rows, start = ["id\taudio\ttext\tstart\tduration"], 0.0
    for number, (waveform, (_, hanzi)) in enumerate(zip(waveforms, texts)):
        rows.append(f"u{number}\tall.wav\t{hanzi}\t{start}\t{len(waveform) / RATE}")
        start += len(waveform) / RATE
    write_manifest(corpus.path, rows)
    assert run(corpus) == 0
    assert [(row["score"], row["heard"]) for row in read_table(corpus, "scores.tsv")] == alone


def test_a_recording_that_cannot_be_read_is_named_and_the_others_are_scored(corpus, capsys):
    (corpus.path / "corpus" / "4.wav").write_bytes(b"no audio")
    (corpus.path / "corpus" / "5.wav").unlink()
    assert run(corpus) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert [line[:9] for line in lines] == ["error: u4", "error: u5"] and "does not exist" in lines[1]
    assert {row["id"] for row in read_table(corpus, "scores.tsv")} == {"u0", "u1", "u2", "u3", "u6", "u7"}


def test_if_nothing_can_be_read_the_earlier_results_stay(corpus):
    assert run(corpus) == 0
    scores = read_table(corpus, "scores.tsv")
    for number in range(NUM_UTTERANCES):
        (corpus.path / "corpus" / f"{number}.wav").unlink()
    message = "none of the 8 utterances could be read, so nothing was written; the reasons are printed above"
    with pytest.raises(errors.UserError, match=message):
        run(corpus)
    assert read_table(corpus, "scores.tsv") == scores


def test_utterances_of_one_id_have_their_own_players(corpus, monkeypatch):
    inputs = utterances.list_corpus("manifest", corpus.flags["corpus_dir"])
    embed = {"embed": lambda shown, names: {name: {"url": shown[name].path} for name in names}}
    monkeypatch.setattr(corpus_check, "clips", types.SimpleNamespace(**embed))
    monkeypatch.setattr(
        utterances, "list_corpus", lambda *_: [recording._replace(name="u") for recording in inputs]
    )
    assert run(corpus, min_score=1.0) == 0
    page = (corpus.path / "out" / "suspects.html").read_text(encoding="utf-8")
    found = read_table(corpus, "suspects.tsv")
    assert len(found) > 1
    assert all(f'src="{row["audio"]}"' in page for row in found)


def test_the_table_that_build_reads_is_written_last(corpus, monkeypatch):
    names, save = [], recordings.save
    monkeypatch.setattr(
        recordings, "save", lambda path, text: names.append(os.path.basename(path)) or save(path, text)
    )
    assert run(corpus) == 0
    assert names == ["suspects.html", "scores.tsv", "suspects.tsv"]


def test_a_store_that_fails_ends_the_run(corpus, monkeypatch):
    def fail(path, *rest):
        raise OSError(5, "Input/output error", path)

    monkeypatch.setattr(audio_files, "read_audio", fail)
    with pytest.raises(errors.UserError, match="0.wav.*Input/output error"):
        run(corpus)


def test_transcripts_in_another_language_write_nothing(corpus):
    header, *rows = corpus.rows
    write_manifest(corpus.path, [header, *(f"{row.rpartition(chr(9))[0]}\tweather" for row in rows)])
    message = (
        r"the transcripts do not match the speech: only 0% of the tokens agree on average .minimum: 10%."
    )
    with pytest.raises(errors.UserError, match=message):
        run(corpus)
    assert os.listdir(corpus.path / "out") == [".align"]


def test_flags_that_do_not_fit_the_corpus_are_refused(corpus):
    message = "align: --corpus=aishell1 has no effect without --corpus_dir; pass --corpus_dir, or omit"
    with pytest.raises(errors.UserError, match=message):
        align.AlignConfig(**{**corpus.flags, "corpus": "aishell1", "corpus_dir": (), "data_dir": ("d",)})
    with pytest.raises(errors.UserError, match="--format works only with recordings and texts; omit it"):
        run(corpus, format=("srt",))


@pytest.mark.long
def test_two_workers_and_data_directories_give_the_same_table(corpus, tiny_export, monkeypatch):
    directories = f"--corpus_dir={corpus.path / 'corpus'}", f"--output_dir={corpus.path / 'data'}"
    built = programs.run("tfrecord_builder.build", *directories, "--num_workers=1", "--max_rejected=1")
    assert built.returncode == 0
    monkeypatch.setattr(utterances.UtteranceWriter, "min_unit_size", 2)
    assert run(corpus) == 0
    alone = read_table(corpus, "scores.tsv")
    data = {"corpus_dir": (), "data_dir": (str(corpus.path / "data"),)}
    assert run(corpus, **data, output_dir=str(corpus.path / "out2"), num_workers=2) == 0
    corpus.path.joinpath("out").rename(corpus.path / "out1")
    corpus.path.joinpath("out2").rename(corpus.path / "out")
    rows = read_table(corpus, "scores.tsv")
    assert sorted(row["id"] for row in rows) == [row["id"] for row in alone]  # includes the rejected one
    for row, other in zip(sorted(rows, key=lambda row: row["id"]), alone):
        names, probabilities = split_tokens(row.pop("tokens"))
        expected_names, expected = split_tokens(other.pop("tokens"))
        assert (row, names) == (other, expected_names)
        # Two workers have other batches, in which a sum of floats may differ, and so may its rounding.
        np.testing.assert_allclose(probabilities, expected, rtol=0, atol=0.0101)


def split_tokens(column):
    names, probabilities = zip(*(token.split(":") for token in column.split()))
    return names, np.float64(probabilities)
