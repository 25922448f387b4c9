import re

import pytest

from tfrecord_builder import errors, manifest
from tfrecord_builder.building import catalog, items
from tfrecord_builder.labels import labelling


@pytest.fixture
def spooled(tmp_path):
    return catalog.Spool(str(tmp_path / "spool.sqlite"))


def _utterance(name, split="train", text="你"):
    return manifest.Utterance(name, f"/{name}.wav", "s", text, "", split)


def _item(name, split="train", transcript="你", tokens=("ni3",)):
    return items.Item(_utterance(name, split), labelling.Labels(transcript, tokens, ()))


def test_utterances_come_back_as_they_were_listed(spooled):
    listed = [_utterance("b"), _utterance("a", "dev"), _utterance("c")]
    for utterance in listed:
        spooled.add_utterance(utterance)
    assert list(spooled.utterances()) == listed
    assert list(spooled.utterances("train")) == [listed[0], listed[2]]
    assert (spooled.count_utterances(), spooled.count_utterances("dev")) == (3, 1)


def test_an_id_twice(spooled):
    spooled.add_utterance(_utterance("u1"))
    with pytest.raises(errors.UserError, match="the utterance id u1 is there twice, expected once; give"):
        spooled.add_utterance(_utterance("u1", "dev"))
    spooled.add_item(_item("u1~speed0.9"))
    message = "u1~speed0.9 is the id of an utterance and of a copy of another one, expected one of them"
    with pytest.raises(errors.UserError, match=message):
        spooled.add_item(_item("u1~speed0.9"))


@pytest.mark.parametrize("name", ["", "a\tb", "a\nb", "a\r"])
def test_an_id_that_no_table_can_hold(spooled, name):
    message = re.escape(f"an utterance id is {name!r}, expected one without tabs and line ends")
    with pytest.raises(errors.UserError, match=message):
        spooled.add_utterance(_utterance(name))


def test_the_order_takes_no_sorting(spooled):
    spooled.add_item(_item("a"))
    statements = []
    spooled._database.set_trace_callback(statements.append)
    assert len(list(spooled.lines("train"))) == 1
    plan = spooled._database.execute(f"EXPLAIN QUERY PLAN {statements[-1]}")
    assert [row[-1] for row in plan] == ["SEARCH items USING INDEX items_in_order (split=?)"]


def test_items_come_in_the_order_of_the_sha256_of_their_ids(spooled):
    for name in "abc":
        spooled.add_item(_item(name))
    spooled.add_item(_item("d", "dev"))
    assert [name for name, _ in spooled.lines("train")] == ["c", "b", "a"]  # 2e7d.. 3e23.. ca97..
    assert [items.from_line(line) for _, line in spooled.lines("dev")] == [_item("d", "dev")]
    assert spooled.split_sizes() == {"dev": 1, "train": 3}


def test_what_is_rejected(spooled):
    for name in ("a", "b"):
        spooled.add_item(_item(name))
    spooled.reject("x", "dev", "no transcript", "/x.wav")
    spooled.reject("a", "train", "silent audio", "/\udcff.wav")
    spooled.reject("b", "train", "silent audio", None)
    assert list(spooled.rejected()) == [
        ("x", "dev", "no transcript", "/x.wav"),
        ("a", "train", "silent audio", r"/\udcff.wav"),
        ("b", "train", "silent audio", ""),
    ]
    assert spooled.reasons() == [("silent audio", 2), ("no transcript", 1)]
    spooled.reject("y", "dev", "pinyin has an unknown syllable: hao9", None)
    spooled.reject("z", "dev", "pinyin has an unknown syllable: nh1", None)
    spooled.reject("c", "train", "pinyin has an unknown syllable: hao9", None)
    assert spooled.reasons()[0] == ("pinyin has an unknown syllable", 3)
    assert next(row[2] for row in spooled.rejected() if row[0] == "z").endswith(": nh1")
    assert spooled.count_listed() == 6  # two items, and four that never were


def test_sentences_that_splits_share(spooled):
    for i, (split, transcript) in enumerate(
        [("train", "你"), ("train", "你"), ("train", "好"), ("dev", "你"), ("dev", "他"), ("test", "她")]
    ):
        spooled.add_item(_item(f"u{i}", split, transcript))
    spooled.add_item(_item("gone", "test", "你"))
    spooled.reject("gone", "test", "silent audio", None)
    assert spooled.sentences() == catalog.Sentences(
        {"train": 2, "dev": 2, "test": 1}, {"train": {"dev": 1}, "dev": {"train": 1}, "test": {}}
    )


def test_a_pronunciation_is_a_sentence_where_there_is_no_transcript(spooled):
    spooled.add_item(_item("a", "train", "", ("ni3", "hao3")))
    spooled.add_item(_item("b", "dev", "", ("ni3", "hao3")))
    assert spooled.sentences().shared["dev"] == {"train": 1}
