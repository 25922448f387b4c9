"""Messages from clients of /v1/stream; test_live_api.py tests invalid messages."""

import tracemalloc

import numpy as np
import pytest
import soxr

from estimator_asr.exporting.saved_model import export_info
from estimator_asr.serving.server import api_errors, live_messages
from estimator_asr.serving.transcripts import live, pauses

RATE = 16000


def test_resampling_in_blocks_equals_resampling_at_once():
    audio = live_messages.Audio({"sample_rate": "44100"})
    source = np.random.default_rng(0).normal(0, 0.1, 44100).astype(np.float32)
    resample = audio.make_resampler(RATE)
    blocks = [resample(source[place : place + 4410]) for place in range(0, len(source), 4410)]
    blocks.append(resample(np.empty(0, np.float32), last=True))
    np.testing.assert_allclose(np.concatenate(blocks), soxr.resample(source, 44100, RATE), atol=1e-5)


def test_the_form_of_the_text():
    assert live_messages.read_text_form({}) == live_messages.read_text_form({"text_form": "written"})
    assert live_messages.read_text_form({"text_form": "plain"}) == "plain"
    with pytest.raises(api_errors.ApiError) as refused:
        live_messages.read_text_form({"text_form": "spoken"})
    sentence = "text_form is 'spoken', expected written or plain; fix or omit the parameter"
    assert (refused.value.status, str(refused.value)) == (400, sentence)


@pytest.mark.long
def test_many_small_messages_do_not_accumulate_memory(tiny_export, monkeypatch):
    """Each message has one sample, for which the resampler does not return a sample yet."""
    resample = live_messages.Audio({"sample_rate": "192000"}).make_resampler(RATE)
    monkeypatch.setattr(pauses, "load_detector", lambda: lambda samples: 0.0)
    transcript = live.LiveTranscript(export_info.load(tiny_export.version_dir), is_streaming=False)
    tracemalloc.start()
    for _ in range(100_000):
        transcript.add(resample(np.zeros(1, np.float32)))
    assert tracemalloc.get_traced_memory()[0] < 1 << 20
    tracemalloc.stop()
