"""The times of words that CTC emits in frames of 40 ms, and the files that other programs read."""

import json
import re

import numpy as np
import pytest
import soundfile

from estimator_asr.serving.alignment import time_files
from estimator_asr.serving.transcripts import recordings

ROWS = [
    {
        "start": 0.3,
        "seconds": 1.5,
        "text": "我有5%，",
        "score": 0.9,
        "words": [
            ["我", [["wo3", 400, 440, 1.0]]],
            ["有", [["you3", 600, 640, 0.9]]],
            ["5%，", [["bai3", 800, 840, 0.8], ["fen1", 1000, 1040, 0.6]]],
        ],
    },
    {
        "start": 4.6,
        "seconds": 1.0,
        "text": '"Hi"',
        "score": 0.5,
        "words": [['"Hi"', [["h", 5000, 5040, 0.5], ["i", 5120, 5160, 0.5]]]],
    },
]


@pytest.fixture
def write(tmp_path):
    """Returns a function that writes a file for a recording of 8 s, and returns its text."""
    soundfile.write(tmp_path / "a.wav", np.zeros(8 * 16000), 16000, subtype="PCM_16")

    def write(format, rows=ROWS, token_type="syllable", name="sub/a b"):
        recording = recordings.RecordingFile(str(tmp_path / "a.wav"), name)
        time_files.write(recording, rows, [format], token_type, str(tmp_path / "times"))
        (path,) = (path for path in tmp_path.glob("times/**/*") if path.is_file())
        return path.read_text(encoding="utf-8")

    return write


def read_text_grid(path):
    """Returns the tiers as praatio reads them; each interval, even an empty one, is (start, end, label)."""
    textgrid = pytest.importorskip("praatio.textgrid")
    grid = textgrid.openTextgrid(str(path), includeEmptyIntervals=True, reportingMode="error")
    assert grid.minTimestamp == 0 and grid.maxTimestamp == 8
    return {name: [tuple(entry) for entry in grid.getTier(name).entries] for name in grid.tierNames}


def test_praat_reads_words_and_syllables(write, tmp_path):
    write("textgrid")
    assert read_text_grid(tmp_path / "times" / "sub" / "a b.TextGrid") == {
        "hanzi": [
            (0, 0.3, ""),
            (0.3, 0.54, "我"),
            (0.54, 0.74, "有"),
            (0.74, 1.22, "5%"),
            (1.22, 4.9, ""),
            (4.9, 5.34, "Hi"),
            (5.34, 8, ""),
        ],
        "syllables": [
            (0, 0.3, ""),
            (0.3, 0.54, "wo3"),
            (0.54, 0.74, "you3"),
            (0.74, 0.94, "bai3"),
            (0.94, 1.22, "fen1"),
            (1.22, 4.9, ""),
            (4.9, 5.092, "h"),
            (5.092, 5.34, "i"),
            (5.34, 8, ""),
        ],
    }


def test_praat_reads_quotation_marks(write, tmp_path):
    text = write("textgrid", [{**ROWS[1], "words": [['a"b', ROWS[1]["words"][0][1]]]}], "character")
    # The short format, line by line: times of the file, number of tiers, and a tier with three intervals.
    assert text.splitlines() == [
        *('File type = "ooTextFile"', 'Object class = "TextGrid"', "", "0", "8.000", "<exists>", "1"),
        *('"IntervalTier"', '"hanzi"', "0", "8.000", "3"),
        *("0.000", "4.900", '""', "4.900", "5.340", '"a""b"', "5.340", "8.000", '""'),
    ]
    tiers = read_text_grid(tmp_path / "times" / "sub" / "a b.TextGrid")
    assert list(tiers) == ["hanzi"] and tiers["hanzi"][1] == (4.9, 5.34, 'a"b')


def test_initials_and_finals_have_tiers_of_their_own(write, tmp_path):
    tokens = ("zh", 400), ("ong1", 480), ("iou3", 640), ("x", 840), ("ve2", 920), ("A", 1080)
    timed = [[token, start, start + 40, 1.0] for token, start in tokens]
    words = [["中", timed[:2]], ["有", timed[2:3]], ["学", timed[3:5]], ["A", timed[5:]]]
    write("textgrid", [{**ROWS[0], "words": words}], "initial_final")
    tiers = read_text_grid(tmp_path / "times" / "sub" / "a b.TextGrid")
    labels = {name: [label for *_, label in tier if label] for name, tier in tiers.items()}
    assert labels == {
        "hanzi": ["中", "有", "学", "A"],
        "syllables": ["zhong1", "you3", "xue2", "A"],
        "initials": ["zh", "x"],
        "finals": ["ong1", "iou3", "ve2"],
    }
    assert [entry for entry in tiers["syllables"] if entry[2]][:2] == [
        (0.3, 0.596, "zhong1"),
        (0.596, 0.78, "you3"),
    ]
    assert tiers["initials"][1] == (0.3, 0.468, "zh") and tiers["finals"][1] == (0.468, 0.596, "ong1")


def test_sclite_reads_file_channel_start_duration_word_and_confidence(write):
    """The definition of ctm in NIST's SCTK, doc/infmts.htm: lines are sorted by file, channel and start."""
    assert write("ctm") == (
        "sub/a_b 1 0.300 0.240 我 1.000\n"
        "sub/a_b 1 0.540 0.200 有 0.900\n"
        "sub/a_b 1 0.740 0.480 5% 0.700\n"
        "sub/a_b 1 4.900 0.440 Hi 0.500\n"
    )


def test_json_has_utterances_words_and_tokens(write, tmp_path):
    result = json.loads(write("json"))
    assert list(result) == ["file", "utterances"] and result["file"] == str(tmp_path / "a.wav")
    first, second = result["utterances"]
    assert (first["start"], first["end"], first["text"], first["score"]) == (0.3, 1.22, "我有5%，", 0.9)
    assert [word["text"] for word in first["words"]] == ["我", "有", "5%"]
    assert second["words"][0]["tokens"][0] == {"start": 4.9, "end": 5.092, "token": "h", "score": 0.5}


def test_captions_have_the_text_as_it_is_written(write):
    """Captions begin 0.2 s before the first emission, and end 0.4 s after the last or with the utterance."""
    assert re.findall("(.+) --> (.+)\n(.+)", write("srt")) == [
        ("00:00:00,300", "00:00:01,440", "我有5%，"),
        ("00:00:04,800", "00:00:05,600", '"Hi"'),
    ]


def test_web_captions(write):
    assert write("vtt").startswith("WEBVTT\n\n00:00:00.300 --> 00:00:01.440\n我有5%，\n\n")


@pytest.mark.parametrize(
    "name, path", [("/data/a", "data/a.ctm"), ("../x/a", "__/x/a.ctm"), ("a..b/c", "a..b/c.ctm")]
)
def test_files_stay_within_the_directory(write, tmp_path, name, path):
    write("ctm", name=name)
    assert (tmp_path / "times" / path).exists()


def test_files_of_an_earlier_run_are_removed_but_other_files_stay(write, tmp_path):
    directory = str(tmp_path / "times")
    write("textgrid", name="./sub/old")
    recording = recordings.RecordingFile(str(tmp_path / "a.wav"), "./new")
    assert time_files.write(recording, [], ["ctm"], "syllable", directory) == []
    paths = time_files.write(recording, ROWS, ["ctm", "json"], "syllable", directory)
    (tmp_path / "times" / "mine.txt").touch()
    for _ in range(2):  # the second call finds nothing to remove
        time_files.remove_others(directory, paths)
        left = sorted(path.name for path in tmp_path.glob("times/**/*") if path.is_file())
        assert left == ["mine.txt", "new.ctm", "new.json"]


def test_a_token_begins_between_two_emissions_and_ends_with_the_next_one():
    """The middles are at 520, 740 and 960 ms; 40 % of 220 ms are 88 ms."""
    emissions = [[500, 540], [720, 760], [920, 1000]]
    assert time_files.find_times(emissions) == [
        {"start": 0.4, "end": 0.652},
        {"start": 0.652, "end": 0.872},
        {"start": 0.872, "end": 1.16},
    ]


def test_before_a_pause_a_token_ends_and_after_it_one_begins_beside_its_emission():
    first, second = time_files.find_times([[0, 40], [1000, 1040]])
    assert first == {"start": 0.0, "end": 0.22} and second == {"start": 0.9, "end": 1.22}


def test_tokens_in_successive_frames_do_not_overlap():
    times = time_files.find_times([[40 * i, 40 * i + 40] for i in range(50)])
    assert all(item["start"] < item["end"] for item in times)
    assert all(first["end"] == second["start"] for first, second in zip(times, times[1:]))


def test_no_tokens_have_no_times():
    assert time_files.find_times([]) == []


@pytest.mark.parametrize(
    "text, word",
    [
        *(("好。", "好"), ("“今", "今"), ("5%，", "5%"), ("-5℃", "-5℃"), ("米[3]。", "米")),
        *(("Wi-Fi ", "Wi-Fi"), ("…", "")),
    ],
)
def test_words_have_no_punctuation_around_them(text, word):
    row = {"text": text, "score": 0.7, "words": [[text, [["a1", 200, 240, 0.5], ["b2", 400, 440, 1.0]]]]}
    tokens = [
        {"start": 0.1, "end": 0.34, "token": "a1", "score": 0.5},
        {"start": 0.34, "end": 0.62, "token": "b2", "score": 1.0},
    ]
    span = {"start": 0.1, "end": 0.62}
    words = [{**span, "text": word, "score": 0.75, "tokens": tokens}]
    assert time_files.list_utterances([row]) == [{**span, "text": text, "score": 0.7, "words": words}]
