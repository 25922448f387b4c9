from tfrecord_builder.report import listings
from tfrecord_builder.tokens import vocabulary

KNOWN = vocabulary.Vocabulary(["<unk>", "a", "b", "c", "d"])


def test_coverage_and_unknown_labels():
    found = listings.list_labels({"train": {"a": 5, "b": 1}, "dev": {"a": 2, "x": 3, "y": 3, "d": 1}}, KNOWN)
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
    assert listings.list_labels({"train": {"<unk>": 2}}, KNOWN)["unknown"] == [("<unk>", 2)]


def test_the_rare_are_none_of_the_frequent():
    tokens = [f"t{i:02d}" for i in range(40)]
    counts = {"train": {token: 1 + i // 2 for i, token in enumerate(tokens)}}
    found = listings.list_labels(counts, vocabulary.Vocabulary(["<unk>", *tokens]))
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
    found = listings.list_audio(entries, lambda value: f"{value} ms")
    assert found[0] == listings.AudioLink("u1", "1500 ms", "/c/a b#.wav", "file:///c/a%20b%23.wav")
    assert [each.url for each in found[1:]] == [
        "file:///c/a.wav#t=2.5,3.4",
        "file:///c/a.wav#t=2.5",
        "",
        "https://host/a.wav#t=0,0.5",
    ]


def test_the_rejected_by_reason():
    rows = [(f"u{i}", "train", "silent audio", f"/c/{i}.wav") for i in range(25)]
    rows.append(("t", "dev", "no transcript", None))
    silent, without = listings.list_rejected(iter(rows))
    assert (*silent[:2], len(silent[2])) == ("silent audio", 25, 20)
    assert silent[2][0] == listings.AudioLink("u0", "train", "/c/0.wav", "file:///c/0.wav")
    assert without == ("no transcript", 1, [listings.AudioLink("t", "dev", "", "")])
    assert listings.list_rejected([]) == []


def test_details_of_a_reason_are_those_of_the_utterance():
    rows = [(name, "train", f"an unknown syllable: {name}", "/c/a.wav") for name in ("hao9", "nh1")]
    (group,) = listings.list_rejected(rows)
    assert group[:2] == ("an unknown syllable", 2)
    assert [each.value for each in group[2]] == ["train, hao9", "train, nh1"]
