"""The page about a build, written from statistics that the tests make."""

import dataclasses
import html.parser
import re

import numpy as np
import pytest

from tfrecord_builder.audio import frontend
from tfrecord_builder.building import shard_statistics, sharding
from tfrecord_builder.building.report import page
from tfrecord_builder.data import dataset_info, manifest, readings, schema, vocabulary
from tfrecord_builder.labels import labelling, vocabularies

SAVED = vocabularies.Vocabularies(
    vocabulary.Vocabulary(["<unk>", "hao3", "ni3"]),
    vocabulary.Vocabulary(["<unk>", "你", "好"]),
    readings.Readings({}),
)


INFO = dataset_info.DatasetInfo(
    frontend.FrontendConfig(), "float16", "syllable", "", "", "", (), (), splits={}, num_rejected=0
)


def _shard(file, split, names, has_audio=True):
    statistics = shard_statistics.ShardStatistics(file=file, split=split, speakers=[f"speaker-{split}"])
    for name in names:
        i = int(re.search("[0-9]", name)[0])
        word = "再" if i == 3 else "好"
        found = labelling.Labels(f"你{word}", ("ni3", "zai4" if i == 3 else "hao3"), ("你", word))
        audio = f"/corpus/{name}.wav" if has_audio else None
        item = sharding.LabelledUtterance(manifest.Utterance(name, audio, "", "", "", split), found)
        fbank = np.ones([40, 80], np.float16) if has_audio else None
        ids = SAVED.tokens.encode(found.tokens), SAVED.characters.encode(found.characters)
        record = schema.Record(name, "", found.transcript, "", *ids, fbank, 1000 * (i + 1))
        level = shard_statistics.Loudness(-1.0, -20.0 - i, 5 * (i == 0)) if has_audio else None
        statistics.count(record, item, SAVED, level)
    return statistics


def _shards(has_audio=True):
    return [
        _shard("a", "train", [f"t{i}" for i in range(6)], has_audio),
        _shard("b", "train", ["t<6>"], has_audio),
        _shard("c", "dev", [f"d{i}" for i in range(4)], has_audio),
    ]


def _info(shards, **changes):
    shared = {"train": (0, {}), "dev": (2, {"train": 2})}
    splits = {
        split: shard_statistics.make_split_info(total, [], *shared[split], {})
        for split, total in shard_statistics.add_up(shards).items()
    }
    return dataclasses.replace(INFO, splits=splits, **changes)


class _Checker(html.parser.HTMLParser):
    """Checks that every element is closed, and that the page loads nothing but recordings."""

    def __init__(self):
        super().__init__()
        self.open, self.sources, self.text = [], [], []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag not in ("meta", "br"):
            self.open.append(tag)
        if "src" in attributes:
            self.sources.append((tag, attributes["src"]))
        assert tag not in ("script", "link", "img") and "href" not in attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def _write(tmp_path, shards, rejected=(), left_out=None, **changes):
    path = tmp_path / "report.html"
    info, totals = _info(shards, **changes), shard_statistics.add_up(shards)
    page.write(str(path), info, totals, iter(rejected), SAVED, left_out or {})
    content = path.read_text("utf-8")
    checker = _Checker()
    checker.feed(content)
    assert checker.open == []
    return content, checker, re.sub(r"\s+", " ", "".join(checker.text))


REJECTED = [("r<1>", "train", "silent audio", "/corpus/r 1.wav"), ("r2", "dev", "no transcript", None)]


def test_the_page_has_every_part(tmp_path):
    content, checker, text = _write(tmp_path, _shards(), REJECTED, num_rejected=2)
    for expected in (
        "0.01hours 2speakers 11utterances 22tokens (syllable) 2rejected",
        "2 of 13 utterances were rejected",
        "All sentences in dev (2) are also in train",
        "2 utterances (18.18 %) clip",
        "Utterances by duration (s)",
        "Utterances by RMS level (dBFS)",
        "Utterances by peak level (dBFS)",
        "The most frequent of 1 unknown labels:",
        "The vocabulary has 2 entries; 0 of them do not occur in train, 0 occur once.",
        "ni3 7 hao3 6",
        "zai4 2",
        "Tones, initials, finals",
        "The 10 longest",
        "The 10 loudest",
        "The 10 quietest",
        "t<6>7.00 s",
        "t0-20.0 dBFS",
        "t<6>-26.0 dBFS",
        "silent audio1",
        "no transcript1",
    ):
        assert expected in text, expected
    train = re.search(r"train\s*7\s*0\.01\s*1\s*4\.00 s\s*14\s*2\.0\s*-\s*-", text)
    assert train, text
    assert re.search(r"dev\s*4\s*0\.00\s*1\s*2\.50 s\s*8\s*2\.0\s*2\s*2", text), text
    assert 'title="7 to 7.2 s: 1 train"' in content


def test_players_link_to_the_audio_files(tmp_path):
    _, checker, _ = _write(tmp_path, _shards(), REJECTED)
    assert checker.sources[0] == ("audio", "file:///corpus/t%3C6%3E.wav")
    assert ("audio", "file:///corpus/t5.wav") in checker.sources
    assert checker.sources[-1] == ("audio", "file:///corpus/r%201.wav")
    assert len(checker.sources) == 31


def test_text_of_the_corpus_is_escaped(tmp_path):
    content, _, text = _write(tmp_path, _shards(), REJECTED)
    assert "<6>" not in content and "<1>" not in content and "t<6>" in text and "r<1>" in text


def test_the_page_of_text_data_has_no_audio(tmp_path):
    content, checker, text = _write(tmp_path, _shards(has_audio=False), frontend=None)
    assert checker.sources == []
    assert "hours" not in text and "Audio" not in text and "Listen" not in text
    assert "ni3 7 hao3 6" in text and "Nothing was rejected." in text


@pytest.mark.parametrize("left_out", [{"symbols": 1, "emoji and other pictures": 1200}, {}])
def test_characters_that_are_not_labels_are_listed(tmp_path, left_out):
    _, _, text = _write(tmp_path, _shards(), left_out=left_out)
    assert ("write words instead. emoji and other pictures 1,200 symbols 1" in text) == bool(left_out)
    assert ("Left out" in text) == bool(left_out)


def test_no_tones_for_characters(tmp_path):
    _, _, text = _write(tmp_path, _shards(), token_type="character")
    assert "Tones" not in text


def test_the_same_build_gives_the_same_bytes_however_it_is_divided(tmp_path):
    names = [f"t{i}" for i in range(8)]
    dev = _shard("c", "dev", ["d3"])
    info = _info([_shard("a", "train", names), dev])
    contents = set()
    for cut in (1, 3, 5):
        shards = [_shard("b", "train", names[cut:]), dev, _shard("a", "train", names[:cut])]
        for order in (shards, shards[::-1]):
            totals = shard_statistics.add_up(order)
            page.write(str(tmp_path / "report.html"), info, totals, REJECTED, SAVED, {})
            contents.add((tmp_path / "report.html").read_bytes())
    assert len(contents) == 1


@pytest.mark.parametrize("name", ["\udcff.wav", "一.wav"])
def test_file_names_that_are_not_utf_8_are_linked(tmp_path, name):
    content, _, _ = _write(tmp_path, _shards(), [("r", "train", "silent audio", f"/corpus/{name}")])
    assert ("/corpus/%FF.wav" if name[0] == "\udcff" else "/corpus/%E4%B8%80.wav") in content


SPLIT = dataset_info.SplitInfo(
    num_utterances=100,
    num_speakers=2,
    seconds=100.0,
    num_tokens=1000,
    num_characters=1000,
    unknown_tokens=0,
    unknown_characters=0,
    frame_lengths={},
    token_lengths={},
    shards=(),
    num_sentences=50,
)


def _splits_info(num_rejected=0, **splits):
    found = {name: dataclasses.replace(SPLIT, **changes) for name, changes in splits.items()}
    return dataclasses.replace(INFO, splits=found, num_rejected=num_rejected)


def _find(info, **fields):
    kind = shard_statistics.ShardStatistics
    totals = {name: kind(split=name, **fields.get(name, {})) for name in info.splits}
    return list(page.list_findings(info, totals))


def test_good_data_have_no_findings():
    shared = {"shared_sentences": {"train": 0}, "shared_speakers": {"train": 0}}
    info = _splits_info(1, train={}, dev=shared, test=shared)
    assert _find(info) == []


def test_sentences_and_speakers_that_are_also_in_train():
    info = _splits_info(
        train={},
        dev={"shared_sentences": {"train": 50}, "num_speakers": 2, "shared_speakers": {"train": 1}},
        test={
            "shared_sentences": {"train": 1, "dev": 9},
            "num_speakers": 1,
            "shared_speakers": {"train": 1, "dev": 1},
        },
    )
    assert _find(info) == [
        "All sentences in dev (50) are also in train: an error rate on dev says nothing about new sentences.",
        "1 of the 2 speakers in dev (50.0 %) are also in train: the error rate on dev is lower than on new "
        "speakers alone.",
        "1 of the 50 sentences in test (2.0 %) are also in train: the error rate on test is lower than on "
        "new sentences alone.",
        "All speakers in test (1) are also in train: an error rate on test says nothing about new speakers.",
    ]


def test_labels_that_the_model_cannot_recognise():
    info = _splits_info(train={}, dev={"unknown_tokens": 11, "unknown_characters": 10})
    assert _find(info) == [
        "11 of the 1,000 tokens in dev (1.1 %) are not in the vocabulary; the model cannot recognise them."
    ]


def test_many_rejected_clipping_and_no_train():
    assert _find(_splits_info(2, test={}), test={"clipped_utterances": 3}) == [
        "2 of 102 utterances were rejected; the reasons are at the end of this page.",
        "There is no train split.",
        "3 of 100 utterances are clipped (several full-scale samples in a row).",
    ]


KNOWN = vocabulary.Vocabulary(["<unk>", "a", "b", "c", "d"])


def test_coverage_and_unknown_labels():
    found = page.list_labels({"train": {"a": 5, "b": 1}, "dev": {"a": 2, "x": 3, "y": 3, "d": 1}}, KNOWN)
    assert found == {
        "size": 4,
        "never": 2,
        "once": 1,
        "frequent": [("a", 5), ("b", 1)],
        "rare": [],
        "unknown": [("x", 3), ("y", 3)],
        "num_unknown": 2,
        "coverage": {
            "train": {"total": 6, "distinct": 2, "unknown": 0},
            "dev": {"total": 9, "distinct": 2, "unknown": 6},
        },
    }


def test_a_label_that_is_the_unknown_token_is_unknown():
    assert page.list_labels({"train": {"<unk>": 2}}, KNOWN)["unknown"] == [("<unk>", 2)]


def test_rare_labels_do_not_include_frequent_ones():
    tokens = [f"t{i:02d}" for i in range(40)]
    counts = {"train": {token: 1 + i // 2 for i, token in enumerate(tokens)}}
    found = page.list_labels(counts, vocabulary.Vocabulary(["<unk>", *tokens]))
    assert found["frequent"][:2] == [("t38", 20), ("t39", 20)] and len(found["frequent"]) == 30
    assert found["rare"] == [(token, 1 + i // 2) for i, token in enumerate(tokens[:10])]
    assert found["once"] == 2


def test_links_are_to_the_segment():
    entries = [
        [1500, "u1", "/c/a b#.wav", 0.0, None],
        [900, "u2", "/c/a.wav", 2.5, 0.9],
        [800, "u3", "/c/a.wav", 2.5, None],
        [700, "u4", "gs://bucket/a.wav", 0.0, None],
        [600, "u5", "https://host/a.wav", 0.0, 0.5],
    ]
    found = page.list_audio(entries, lambda value: f"{value} ms")
    assert found[0] == page.AudioLink("u1", "1500 ms", "/c/a b#.wav", "file:///c/a%20b%23.wav")
    assert [each.url for each in found[1:]] == [
        "file:///c/a.wav#t=2.5,3.4",
        "file:///c/a.wav#t=2.5",
        "",
        "https://host/a.wav#t=0,0.5",
    ]


def test_rejected_utterances_are_grouped_by_reason():
    rows = [(f"u{i}", "train", "silent audio", f"/c/{i}.wav") for i in range(25)]
    rows.append(("t", "dev", "no transcript", None))
    silent, without = page.list_rejected(iter(rows))
    assert (*silent[:2], len(silent[2])) == ("silent audio", 25, 20)
    assert silent[2][0] == page.AudioLink("u0", "train", "/c/0.wav", "file:///c/0.wav")
    assert without == ("no transcript", 1, [page.AudioLink("t", "dev", "", "")])
    assert page.list_rejected([]) == []


def test_details_of_a_reason_are_listed_with_the_utterance():
    rows = [(name, "train", f"an unknown syllable: {name}", "/c/a.wav") for name in ("hao9", "nh1")]
    (group,) = page.list_rejected(rows)
    assert group[:2] == ("an unknown syllable", 2)
    assert [each.value for each in group[2]] == ["train, hao9", "train, nh1"]
