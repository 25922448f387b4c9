import corpus_trees
import pytest
import small_corpora

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.building import builder, sharding
from tfrecord_builder.corpora import lhotse
from tfrecord_builder.data import schema

NO_RECORDING = "Lhotse cut or supervision has no recording with audio sources"
SOME_CHANNELS = "Lhotse cut selects several but not all channels in a file (supported: one or all)"
NO_SUCH_CHANNEL = "Lhotse supervision names a channel that its cut does not have"
OUTSIDE = "Lhotse supervision is not within its cut, or has invalid times"
TRANSFORMS = "(supported: Speed, Volume, Resample)"
SOURCES = "(supported: a file or a command that only decodes one)"


def _list(corpus_dir):
    return list(lhotse.list_utterances(str(corpus_dir)))


def _write(tmp_path, cut):
    corpus_trees.write_gzip(tmp_path / "cuts_train.jsonl.gz", corpus_trees.to_lines([cut]))


def _list_one(tmp_path, **changes):
    _write(tmp_path, corpus_trees.make_cut(**changes))
    (found,) = _list(tmp_path)
    return found


def _recording(**changes):
    return {**corpus_trees.make_cut()["recording"], **changes}


def _source(path, channels=(0,), kind="file"):
    return {"type": kind, "channels": list(channels), "source": path}


def _transformed(**factors):
    """Returns a recording with a transform for each factor."""
    return _recording(transforms=[{"name": name, "kwargs": {"factor": factors[name]}} for name in factors])


def test_cuts(tmp_path):
    found = _list(corpus_trees.make_lhotse_corpus(tmp_path))
    assert [(u.utterance_id, u.speaker, u.split, u.text) for u in found] == [
        ("a-0", "s1", "train", "你好"),
        ("b-0", "", "dev", ""),
    ]
    assert (found[0].start_seconds, found[0].seconds, found[0].channel) == (0.25, 0.5, 0)
    assert found[0].audio == str(tmp_path / "wav" / "a.wav")


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("cuts_test.jsonl", "test"),
        ("librispeech_cuts_train-clean-100.jsonl.gz", "train"),
        ("dev.jsonl.gz", "dev"),
        ("cuts_valid.jsonl.gz", "dev"),
        ("Train.jsonl", "train"),
        ("eval_cuts.json.gz", "test"),
        ("cuts.jsonl.gz", "train"),
        ("cuts.json", "train"),
        ("aishell_cuts.jsonl", "train"),
    ],
)
def test_file_names_determine_the_split(tmp_path, name, split):
    write = corpus_trees.write_gzip if name.endswith(".gz") else small_corpora.write_text
    write(tmp_path / name, corpus_trees.to_lines([corpus_trees.make_cut()]))
    assert [u.split for u in _list(tmp_path)] == [split]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("aishell_cuts_train_raw.jsonl.gz", ": found aishell_cuts_train_raw.jsonl.gz, "),
        ("cuts.000000.jsonl.gz", ": found cuts.000000.jsonl.gz, "),
        ("README.txt", ": found no Lhotse manifests, "),
        ("aishell_supervisions_train.jsonl.gz", ": found aishell_supervisions_train.jsonl.gz, "),
        (
            "recordings_train.jsonl.gz",
            "/recordings_train.jsonl.gz: the supervisions file .*/supervisions_train.jsonl.gz is missing; ",
        ),
    ],
)
def test_directories_without_cuts(tmp_path, name, problem):
    corpus_trees.write_gzip(tmp_path / name, corpus_trees.to_lines([corpus_trees.make_cut()]))
    accepted = (
        r"expected cuts_train.jsonl.gz, train.jsonl.gz or cuts.jsonl.gz, or recordings_train.jsonl.gz with "
        r"supervisions_train.jsonl.gz \(and dev, test; also .jsonl, .json\); "
    )
    remedy = "copy or rename the file" if "missing" in problem else "rename the manifests, or pass"
    with pytest.raises(errors.UserError, match=problem + accepted + remedy):
        _list(tmp_path)


def test_cuts_without_a_split_among_others_with_one(tmp_path, caplog):
    for name in ("cuts_dev.jsonl.gz", "cuts.jsonl.gz", "musan_cuts.jsonl.gz", "cuts_train_raw.jsonl.gz"):
        cut = corpus_trees.make_cut(id=name)
        corpus_trees.write_gzip(tmp_path / name, corpus_trees.to_lines([cut]))
    assert [u.utterance_id for u in _list(tmp_path)] == ["cuts_dev.jsonl.gz"]
    others = "cuts.jsonl.gz, cuts_train_raw.jsonl.gz, musan_cuts.jsonl.gz"
    assert f"unknown files: {others}; expected" in caplog.text


def test_recordings_with_supervisions(tmp_path):
    recordings = [_recording(), {**_recording(), "id": "b"}]
    supervisions = [
        {"id": "a-1", "recording_id": "a", "start": 0.25, "duration": 0.5, "text": "你好", "speaker": "s1"},
        {"id": "a-2", "recording_id": "a", "start": 0.5},
        {"id": "c-1", "recording_id": "c", "start": 0.0, "duration": 1.0, "text": "谢谢"},
    ]
    corpus_trees.write_gzip(tmp_path / "x_recordings_dev.jsonl.gz", corpus_trees.to_lines(recordings))
    corpus_trees.write_gzip(tmp_path / "x_supervisions_dev.jsonl.gz", corpus_trees.to_lines(supervisions))
    found = _list(tmp_path)
    assert [(u.utterance_id, u.split, u.text, u.speaker) for u in found] == [
        ("a-1", "dev", "你好", "s1"),
        ("a-2", "dev", "", ""),
        ("c-1", "dev", "谢谢", ""),
    ]
    assert [(u.start_seconds, u.seconds, u.channel) for u in found[:2]] == [(0.25, 0.5, 0), (0.5, None, 0)]
    assert [u.problem for u in found] == ["", "", NO_RECORDING]


def test_a_source_is_relative_to_the_manifest_or_a_parent_directory(tmp_path):
    directory = tmp_path / "data" / "fbank"
    small_corpora.write_text(tmp_path / "wav" / "a.wav", "")
    _write(directory, corpus_trees.make_cut())
    assert _list(directory)[0].audio == str(tmp_path / "wav" / "a.wav")
    small_corpora.write_text(directory / "wav" / "a.wav", "")
    assert _list(directory)[0].audio == str(directory / "wav" / "a.wav")


def test_a_missing_source_is_relative_to_the_manifest(tmp_path):
    _write(tmp_path, corpus_trees.make_cut(recording=_recording(sources=[_source("no/such.wav")])))
    assert _list(tmp_path)[0].audio == str(tmp_path / "no" / "such.wav")


def test_a_channel_is_an_index_within_its_file(tmp_path):
    sources = [_source("/in/front.wav", [0, 1]), _source("/in/back.wav", [2, 3])]
    recording = _recording(sources=sources)
    channels = (3, [2], [3, 2], [0, 1, 2, 3], 4)
    found = [_list_one(tmp_path, recording=recording, supervisions=[], channel=each) for each in channels]
    assert [(u.audio, u.channel) for u in found[:3]] == [("/in/back.wav", each) for each in (1, 0, None)]
    assert [u.problem for u in found] == ["", "", "", SOME_CHANNELS, SOME_CHANNELS]


def test_a_supervision_that_names_a_channel(tmp_path):
    changes = dict(channel=[0, 1], recording=_recording(sources=[_source("/in/a.wav", [0, 1])]))
    named = [None, 1, [0], [0, 1], 2]
    supervisions = [{"id": str(i), "channel": channel} for i, channel in enumerate(named)]
    supervisions.append({"id": "none"})
    _write(tmp_path, corpus_trees.make_cut(supervisions=supervisions, **changes))
    found = _list(tmp_path)
    assert [u.channel for u in found] == [None, 1, 0, None, None, None]
    assert [u.problem for u in found] == ["", "", "", "", NO_SUCH_CHANNEL, ""]


@pytest.mark.parametrize(
    ("times", "part"),
    [
        ({"start": 0.125, "duration": 0.25}, (0.375, 0.25)),
        ({"start": -0.0625, "duration": 0.5}, (0.25, 0.4375)),
        ({"start": 0.125, "duration": 0.4375}, (0.375, 0.375)),
        ({"start": 0.125}, (0.375, 0.375)),
        ({"duration": 0.25}, (0.25, 0.25)),
        ({}, (0.25, 0.5)),
        ({"start": -0.125, "duration": 0.5}, None),
        ({"start": 0.25, "duration": 0.5}, None),
    ],
)
def test_a_supervision_of_a_part_of_the_cut(tmp_path, times, part):
    """The cut lasts from 0.25 s to 0.75 s of its recording."""
    found = _list_one(tmp_path, supervisions=[{"id": "a", "text": "你好", **times}])
    if part:
        assert (found.start_seconds, found.seconds, found.problem) == (*part, "")
    else:
        assert found.problem == OUTSIDE


def test_each_supervision_is_an_utterance(tmp_path):
    first = {"id": "x", "start": 0.0, "duration": 0.25, "text": "你好", "speaker": "s1"}
    second = {"start": 0.125, "duration": 0.25, "text": "谢谢", "speaker": "s2"}
    _write(tmp_path, corpus_trees.make_cut(supervisions=[first, second]))
    assert [(u.utterance_id, u.text, u.speaker, u.start_seconds, u.seconds) for u in _list(tmp_path)] == [
        ("a-0-x", "你好", "s1", 0.25, 0.25),
        ("a-0-2", "谢谢", "s2", 0.375, 0.25),
    ]


def test_a_padded_cut_is_read_without_its_padding(tmp_path):
    pad = {"cut": {"id": "p", "duration": 1.0, "sampling_rate": 16000}, "type": "PaddingCut", "offset": 0.5}
    mono = {"cut": corpus_trees.make_cut(id="inner"), "type": "MonoCut"}
    _write(tmp_path, {"id": "padded", "type": "MixedCut", "tracks": [mono, pad]})
    (found,) = _list(tmp_path)
    assert (found.utterance_id, found.text, found.problem) == ("padded", "你好", "")
    assert (found.start_seconds, found.seconds) == (0.25, 0.5)


@pytest.mark.parametrize(
    "changes", [{"tracks": [{"cut": {}}, {"cut": {}}]}, {"tracks": []}, {"transforms": [{}]}]
)
def test_a_mixture_is_rejected(tmp_path, changes):
    mono = {"cut": corpus_trees.make_cut(id="inner"), "type": "MonoCut"}
    _write(tmp_path, {"id": "mixed", "type": "MixedCut", "tracks": [mono], **changes})
    (found,) = _list(tmp_path)
    assert (found.utterance_id, found.audio) == ("mixed", str(tmp_path / "cuts_train.jsonl.gz"))
    assert found.problem == "Lhotse MixedCut of several sounds (supported: MonoCut, MultiCut, padded cuts)"


def test_speed_and_volume(tmp_path):
    recording = _transformed(Speed=1.25, Volume=10)
    recording["transforms"].append({"name": "Resample", "kwargs": {"target_sampling_rate": 16000}})
    found = _list_one(tmp_path, recording=recording)
    assert (found.start_seconds, found.seconds, found.speed, found.problem) == (0.3125, 0.625, 1.25, "")
    assert found.volume_db == pytest.approx(20.0)


def test_the_file_of_a_decoding_command_is_read(tmp_path):
    sources = [
        _source("flac -c -d -s /in/a.flac", kind="command"),
        _source("sph2pipe -f wav -p -c 2 /in/a.sph", kind="command"),
        _source("cat /in/a.wav", [0, 1], kind="command"),
    ]
    found = [_list_one(tmp_path, recording=_recording(sources=[source])) for source in sources]
    assert [(u.audio, u.channel, u.problem) for u in found] == [
        ("/in/a.flac", None, ""),
        ("/in/a.sph", 1, ""),
        ("/in/a.wav", 0, ""),
    ]


@pytest.mark.parametrize(
    ("recording", "problem"),
    [
        (None, NO_RECORDING),
        (_transformed(Tempo=0.9), f"Lhotse transform 'Tempo' {TRANSFORMS}"),
        (_transformed(变速=0.9), f"Lhotse transform '变速' {TRANSFORMS}"),
        (_recording(transforms=[{}]), f"Lhotse transform None {TRANSFORMS}"),
        (_transformed(Speed=3), "Lhotse transform Speed has a factor outside 0.5 to 2"),
        (_transformed(Volume=0), "Lhotse transform Volume has a factor outside 0.001 to 1000"),
        (_transformed(Volume=None), "Lhotse transform Volume has a factor outside 0.001 to 1000"),
        (
            _recording(sources=[_source("cat a.wav b.wav", kind="command")]),
            f"Lhotse audio source of type 'command' {SOURCES}",
        ),
        (
            _recording(sources=[_source("UklGRg==", kind="memory")]),
            f"Lhotse audio source of type 'memory' {SOURCES}",
        ),
        (_recording(sources=[]), SOME_CHANNELS),
    ],
)
def test_cuts_with_an_unsupported_recording_are_rejected(tmp_path, recording, problem):
    assert _list_one(tmp_path, recording=recording).problem == problem


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (dict(type="PaddingCut", recording=None), NO_RECORDING),
        (dict(start=-1), OUTSIDE),
        (dict(channel=1, supervisions=[]), SOME_CHANNELS),
        (dict(channel=[], supervisions=[]), SOME_CHANNELS),
    ],
)
def test_other_cuts_that_are_rejected(tmp_path, changes, problem):
    assert _list_one(tmp_path, **changes).problem == problem


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(supervisions=["你好"]), "not a valid Lhotse cut or supervision .AttributeError.*; wr"),
        (dict(supervisions=[{"text": 1.5}]), "text is 1.5, expected text"),
        (dict(id=None), "id is missing, expected text"),
        (dict(type="MixedCut"), "not a valid Lhotse cut .*KeyError.'tracks'."),
        (dict(duration="x"), "not a valid Lhotse cut .*ValueError"),
        (dict(recording=_recording(sources=[{"type": "file"}])), "not .*KeyError.'channels'."),
        (dict(recording=_recording(sources=[{"type": "file", "channels": [0]}])), "not .*KeyError.'source'."),
    ],
)
def test_cuts_that_are_refused(tmp_path, changes, message):
    _write(tmp_path, corpus_trees.make_cut(**changes))
    with pytest.raises(errors.UserError, match=f"cuts_train.jsonl.gz: line 1: {message}"):
        _list(tmp_path)


def test_a_build_rejects_an_unsupported_cut(tmp_path):
    """The build writes the other cuts, one of them with the speed and volume of its transforms."""
    slow = dict(id="slow", start=0.0, duration=1.25, supervisions=[{"text": "谢谢"}])
    cuts = [
        corpus_trees.make_cut(),
        corpus_trees.make_cut(**slow, recording=_transformed(Speed=0.8, Volume=2.0)),
        corpus_trees.make_cut(id="tempo", recording=_transformed(Tempo=0.9)),
    ]
    corpus_dir = corpus_trees.tree(tmp_path / "corpus", {}, ("wav/a.wav",))
    corpus_trees.write_gzip(f"{corpus_dir}/cuts_train.jsonl.gz", corpus_trees.to_lines(cuts))
    config = builder.BuildConfig(
        corpus="lhotse",
        corpus_dir=(corpus_dir,),
        output_dir=str(tmp_path / "out"),
        num_shards=1,
        max_rejected=0.5,
    )
    info = builder.build(config, frontend.FrontendConfig())
    (path,) = info.shard_paths(config.output_dir, "train")
    found = {item.utterance.utterance_id: item.variant for item in sharding.read_items(path)}
    assert found["a-0"] is None
    assert (found["slow"].speed, found["slow"].volume_db) == (0.8, pytest.approx(6.0206, abs=1e-4))
    records = schema.parse_records(schema.read_shard(path), num_bins=80)
    num_frames = {each["utterance_id"].decode(): len(each["fbank"]) for each in records}
    assert num_frames == {"a-0": 48, "slow": 123}  # 0.5 s and 1.25 s
    rejected = (tmp_path / "out" / "rejected.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert [line.split("\t")[:3] for line in rejected] == [
        ["tempo", "train", f"Lhotse transform 'Tempo' {TRANSFORMS}"]
    ]
