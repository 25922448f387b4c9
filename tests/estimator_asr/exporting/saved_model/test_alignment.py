"""The signatures align and log_probs agree with the best path and with an alignment in NumPy."""

import numpy as np
import numpy_alignment
import pytest
import tensorflow as tf
import tiny_models

from estimator_asr.exporting.saved_model import recogniser

pytestmark = pytest.mark.long

SECONDS = 0.04  # seconds per frame


@pytest.fixture(scope="module")
def loaded(tiny_export):
    return recogniser.load_version(tiny_export.version_dir)


def align(loaded, batch, tokens):
    return loaded.find("align").run({**batch, "tokens": np.array(tokens, object)})


def test_the_tokens_of_the_best_path_have_score_0(loaded, waveform_batch):
    greedy = loaded.find("waveform").run(waveform_batch)["greedy_pinyin"]
    found = align(loaded, waveform_batch, greedy)
    assert found["status"] == ["ok"] * 8 and len(set(greedy)) > 3
    for items, pinyin in zip(found["tokens"], greedy):
        assert [item["token"] for item in items] == pinyin.split()
        assert all(item["score"] == pytest.approx(0, abs=1e-3) for item in items)
        assert all(item["start"] < item["end"] for item in items)


def test_other_tokens_have_the_times_of_the_alignment_in_numpy(loaded, waveform_batch):
    scores = loaded.find("log_probs").fetch(waveform_batch)
    assert scores["frame_seconds"] == pytest.approx([SECONDS] * 8)
    found = align(loaded, waveform_batch, ["ni3  hao3 ni3"] * 8)["tokens"]
    ids = [tiny_models.TOKENS.tokens.index(token) for token in ("ni3", "hao3", "ni3")]
    for log_probs, num_frames, items in zip(scores["log_probs"], scores["num_frames"], found):
        spans = numpy_alignment.align(log_probs[:num_frames], ids, log_probs.shape[1] - 1)
        assert [round(item["start"] / SECONDS) for item in items] == [span.first for span in spans]
        assert [round(item["end"] / SECONDS) for item in items] == [span.last + 1 for span in spans]
        assert sum(item["score"] for item in items) < -1


def test_frames_sum_to_one_and_a_rejected_item_has_none(loaded, waveform_batch):
    waveforms = waveform_batch["waveform"] * np.eye(8, 1, dtype=np.float32)
    scores = loaded.find("log_probs").fetch({**waveform_batch, "waveform": waveforms})
    assert scores["status"].tolist() == [b"ok"] + [b"silent"] * 7
    assert scores["num_frames"][0] == 6 and not np.any(scores["num_frames"][1:])
    sums = np.exp(scores["log_probs"][0, : scores["num_frames"][0]]).sum(axis=1)
    np.testing.assert_allclose(sums, 1, rtol=1e-5)


def test_more_tokens_than_frames_are_refused_alone(loaded, waveform_batch):
    many = " ".join(["ni3"] * 999)
    found = align(loaded, waveform_batch, [many] + ["hao3"] * 7)
    assert found["status"][0] == "too_many_tokens" and set(found["status"][1:]) == {"ok"}
    assert [len(items) for items in found["tokens"]] == [0] + [1] * 7


def test_a_huge_text_takes_no_memory_from_the_other_items(loaded, waveform_batch):
    tokens = np.array(["ni3 " * 1_000_000] + ["hao3"] * 7, object)
    outputs = loaded.find("align").fetch({**waveform_batch, "tokens": tokens})
    assert outputs["tokens.token"].shape == (8, 1) and outputs["status"][0] == b"too_many_tokens"


def test_an_empty_batch_and_a_text_without_tokens(loaded, waveform_batch):
    none = {name: values[:0] for name, values in waveform_batch.items()}
    assert align(loaded, none, []) == {"status": [], "tokens": []}
    one = {name: values[:1] for name, values in waveform_batch.items()}
    assert align(loaded, one, [" "]) == {"status": ["ok"], "tokens": [[]]}


def test_a_missing_text_is_refused(loaded, waveform_batch):
    message = "E_ROWS: .* has 8 rows, expected 1 as in tokens"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        align(loaded, waveform_batch, ["ni3"])
