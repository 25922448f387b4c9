"""The signatures of a streaming model: outputs do not depend on the pieces; invalid pieces are rejected."""

import numpy as np
import pytest
import tensorflow as tf
import tiny_models

from estimator_asr import export
from estimator_asr.exporting.saved_model import recogniser, stream_client, streams, trained_model
from tfrecord_builder import errors

pytestmark = pytest.mark.long
RATE = tiny_models.FRONTEND.sample_rate


@pytest.fixture(scope="module")
def version(streaming_export):
    return recogniser.load_version(recogniser.find_version(streaming_export))


def make_client(version, name=streams.STREAM):
    return stream_client.find(version, name)


def make_batch(*seconds):
    waveforms = [tiny_models.make_waveform(int(each * RATE), seed) for seed, each in enumerate(seconds)]
    padded = np.zeros([len(waveforms), max(map(len, waveforms))], np.float32)
    for row, waveform in zip(padded, waveforms):
        row[: len(waveform)] = waveform
    return {"waveform": padded, "num_samples": np.array(list(map(len, waveforms)), np.int32)}


def make_piece(waveform, is_last=False):
    """Returns a batch in which every row is a stream's next piece, without padding."""
    count, length = waveform.shape
    return {"waveform": waveform, "num_samples": [length] * count, "is_last": [is_last] * count}


def hear(client, batch, size, names=("waveform", "num_samples")):
    state = client.start(len(batch[names[1]]))
    for piece in stream_client.cut(batch, names, size):
        outputs, state = client.feed(state, piece)
    return outputs


def assert_equal(got, expected, atol=1e-4):
    assert got["transcript"] == expected["transcript"]
    assert got["pinyin"] == expected["pinyin"]
    for ours, others in zip(got["characters"], expected["characters"]):
        assert [each["start"] for each in ours] == [each["start"] for each in others]
    for ours, others in zip(got["n_best"], expected["n_best"]):
        assert [each["transcript"] for each in ours] == [each["transcript"] for each in others]
        scores = [[each["score"] for each in side] for side in (ours, others)]
        np.testing.assert_allclose(*scores, atol=atol)


@pytest.mark.parametrize("size", [1777, 5120, 20000])
def test_hypotheses_and_scores_do_not_depend_on_the_pieces(version, size):
    client, batch = make_client(version), make_batch(2.0, 1.23, 0.4)
    whole = hear(client, batch, 2 * RATE)
    assert all(whole["transcript"]) and len(set(whole["transcript"])) > 1
    assert_equal(hear(client, batch, size), whole)


def test_pieces_of_a_single_sample(version):
    client, batch = make_client(version), make_batch(0.05)
    assert_equal(hear(client, batch, 1), hear(client, batch, RATE))


def test_features_and_audio_have_equal_outputs(version):
    batch = make_batch(2.0, 1.23)
    rows = zip(batch["waveform"], batch["num_samples"])
    fbanks = [tiny_models.extract(row[:length]) for row, length in rows]
    fbank = np.zeros([2, len(fbanks[0]), 20], np.float32)
    for row, each in zip(fbank, fbanks):
        row[: len(each)] = each
    features = {"fbank": fbank, "num_frames": np.array(list(map(len, fbanks)), np.int32)}
    got = hear(make_client(version, streams.FEATURES), features, 7, ("fbank", "num_frames"))
    assert_equal(got, hear(make_client(version), batch, 4096), 1e-3)


def test_streams_of_a_batch_do_not_change_each_other(version):
    """One stream begins while the other continues."""
    client, batch = make_client(version), make_batch(2.0, 1.0)
    first, second = batch["waveform"][:1], batch["waveform"][1:, :RATE]
    alone = [hear(client, make_piece(each), RATE) for each in (first, second)]
    _, old = client.feed(client.start(1), make_piece(first[:, :RATE]))
    state = {name: np.concatenate([old[name], new]) for name, new in client.start(1).items()}
    pieces = np.concatenate([first[:, RATE:], second])
    outputs, _ = client.feed(state, make_piece(pieces, is_last=True))
    for row, expected in enumerate(alone):
        assert_equal({name: value[row : row + 1] for name, value in outputs.items()}, expected)


def test_a_partial_transcript_comes_before_the_end(version):
    client, batch = make_client(version), make_batch(2.0)
    outputs, _ = client.feed(client.start(1), {**batch, "is_last": [False]})
    assert outputs["status"] == ["ok"] and outputs["transcript"][0]


def test_a_piece_that_is_not_finite_changes_no_stream(version):
    client, batch = make_client(version), make_batch(1.0, 1.0)
    expected = hear(client, batch, RATE)
    bad = {**make_piece(np.full([2, 100], np.nan, np.float32)), "num_samples": [100, 0]}
    outputs, state = client.feed(client.start(2), bad)
    assert outputs["status"] == ["not_finite", "ok"] and outputs["transcript"] == ["", ""]
    outputs, _ = client.feed(state, {**batch, "is_last": [True, True]})
    assert_equal(outputs, expected)


def test_a_stream_of_more_than_a_minute_rejects_more_audio(version):
    client = make_client(version, streams.FEATURES)
    piece = {"fbank": np.full([1, 5990, 20], 8.0, np.float32), "num_frames": [5990], "is_last": [False]}
    outputs, state = client.feed(client.start(1), piece)
    assert outputs["status"] == ["ok"]
    outputs, state = client.feed(state, {**piece, "fbank": piece["fbank"][:, :9], "num_frames": [9]})
    assert outputs["status"] == ["too_long"]
    last = {"fbank": piece["fbank"][:, :8], "num_frames": [8], "is_last": [True]}
    outputs, _ = client.feed(state, last)
    assert outputs["status"] == ["ok"]


def test_a_piece_that_is_too_long_does_not_change_the_state(version):
    client, batch = make_client(version), make_batch(59.9, 0.35)
    heard, piece = ({name: rows[i : i + 1] for name, rows in batch.items()} for i in range(2))
    _, state = client.feed(client.start(1), {**heard, "is_last": [False]})
    outputs, after = client.feed(state, {**piece, "is_last": [False]})
    assert outputs["status"] == ["too_long"]
    for name in ("samples", "num_samples", "frames", "num_frames", "num_outputs"):
        name = f"state_{name}"
        np.testing.assert_array_equal(after[name], state[name], err_msg=name)


@pytest.mark.parametrize("name", ["is_last", "state", "num_samples"])
def test_different_numbers_of_rows_are_refused(version, name):
    client, batch = make_client(version), {**make_batch(0.5, 0.5, 0.5), "is_last": [False] * 3}
    state = client.start(1 if name == "state" else 3)
    if name != "state":
        batch[name] = batch[name][:1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="; send (one row per item|the true lengths)"):
        client.feed(state, batch)


def test_a_batch_of_no_streams(version):
    client = make_client(version)
    outputs, state = client.feed(client.start(0), make_piece(np.zeros([0, 100], np.float32)))
    assert outputs["transcript"] == [] and len(state["state_samples"]) == 0


def test_a_stream_that_ends_without_audio_is_empty(version):
    client = make_client(version)
    outputs, _ = client.feed(client.start(1), make_piece(np.zeros([1, 0], np.float32), is_last=True))
    assert outputs["transcript"] == [""] and outputs["status"] == ["ok"]


def test_only_models_that_stream_have_the_signatures(tiny_export, tmp_path):
    definitions = recogniser.load_version(tiny_export.version_dir).definitions
    assert not [name for name in definitions if "stream" in name]
    model = tiny_models.make_acoustic_model(str(tmp_path / "am"), chunk_frames=16)
    greedy = trained_model.open_trained_model(model.path, "greedy")
    assert not streams.can_stream(greedy.model)
    with pytest.raises(errors.UserError) as refused:
        greedy.with_chunks(None)
    assert str(refused.value) == (
        f"{model.path}: decoding is greedy, but streams need beam search; pass --decoding=beam"
    )
    with pytest.raises(errors.UserError) as refused:
        trained_model.open_trained_model(tiny_export.acoustic_dir).with_chunks(32)
    assert str(refused.value) == (
        f"{tiny_export.acoustic_dir}: the model does not stream; train an acoustic model with "
        "--chunk_frames=32 in another model directory"
    )


def test_a_growing_segment_sends_each_sample_once(version):
    client, waveform = make_client(version), make_batch(2.0)["waveform"][0]
    start = {name: rows[0] for name, rows in client.start(1).items()}
    spoken = stream_client.GrowingSegment(start)
    for place in (400, 90000):  # two segments
        lengths = []
        for num_samples in (5000, 9000, 9000, 32000):
            piece = spoken.next_piece(place, waveform[:num_samples])
            lengths.append(len(piece["waveform"]))
            outputs = client.pieces.run({name: value[None] for name, value in piece.items()})
            result = spoken.keep({name: value for name, (value,) in outputs.items()}, num_samples)
        assert lengths == [5000, 4000, 0, 23000]
        assert not [name for name in result if name.startswith(recogniser.STATE)]
        expected, _ = client.feed(client.start(1), make_piece(waveform[None]))
        assert result["transcript"] == expected["transcript"][0]
        np.testing.assert_allclose(result["acoustic_score"], expected["acoustic_score"][0], atol=1e-4)


def test_an_export_with_another_chunk_size(tmp_path):
    tiny_models.make_acoustic_model(str(tmp_path / "am"), chunk_frames=16)
    directories = {"acoustic_model_dir": str(tmp_path / "am"), "export_dir": str(tmp_path / "export")}
    version = recogniser.load_version(export.export(export.ExportConfig(**directories, chunk_frames=64)))
    assert version.info.chunk_frames == 64
    assert make_client(version).start(3)["state_frames"].shape == (3, 63, 20)
