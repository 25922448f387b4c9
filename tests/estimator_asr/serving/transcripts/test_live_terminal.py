"""Live transcription in a terminal, from pipes and a fake microphone, with a fake model."""

import io
import os
import pty
import re
import signal
import sys
import threading
import time
import types

import numpy as np
import pytest
import recognition_results
import soundfile

from estimator_asr.serving.transcripts import live_terminal
from estimator_asr_runtime import written_form
from tfrecord_builder import errors

RATE = 16000
INFO = types.SimpleNamespace(
    frontend=types.SimpleNamespace(sample_rate=RATE),
    acoustic=types.SimpleNamespace(decode={}),
    chunk_seconds=0.32,
)
pytestmark = pytest.mark.usefixtures("loud_is_speech")


class Model:
    """A recogniser that returns one character per second of audio."""

    def __init__(self, text="一二三四五六七八九十"):
        self._text = text

    def run(self, batch):
        count = round(batch["waveform"].shape[1] / RATE)
        times = [second + 0.1 for second in range(count)]
        values = recognition_results.make(self._text[:count], times, 1.0, has_marks=False)
        return {name: [value] for name, value in values.items()}


def make_blocks(*seconds, wait=0.0):
    """Yields alternating speech and pauses in blocks of 0.1 s; waits `wait` seconds before each block."""
    for index, length in enumerate(seconds):
        for _ in range(round(length * 10)):
            time.sleep(wait)
            yield np.full(RATE // 10, 0.0 if index % 2 else 0.5, np.float32)


@pytest.mark.long
def test_each_ended_segment_is_a_line(capsys):
    live_terminal.transcribe(Model(), make_blocks(3, 2, 2), INFO)
    assert capsys.readouterr().out.split("\n") == ["一二三", "一二", ""]


class Streams:
    """A streaming recogniser that returns one character per second; its state is the number of seconds."""

    def __init__(self, model):
        self._model, self.lengths = model, []

    def start_one(self):
        return {"state_seconds": np.zeros([1], np.float32)}

    @property
    def pieces(self):
        return self

    def run(self, batch):
        (num_samples,), (state,) = batch["num_samples"], batch["state_seconds"]
        assert num_samples == batch["waveform"].shape[1]
        self.lengths.append(int(num_samples))
        heard = state[0] + num_samples / RATE
        outputs = self._model.run({"waveform": np.zeros([1, round(heard * RATE)])})
        return {**outputs, "state_seconds": [np.array([heard], np.float32)]}


def test_a_streaming_model_processes_each_sample_once(capsys):
    streams = Streams(Model())
    live_terminal.transcribe(Model(), make_blocks(3, 2, 2, wait=0.02), INFO, streams)
    assert capsys.readouterr().out.split("\n") == ["一二三", "一二", ""]
    assert len(streams.lengths) > 3 and sum(streams.lengths) < 6 * RATE


class Punctuate:
    """A punctuation model that puts a comma after 说, whatever the pauses are."""

    form = written_form.load()

    def run(self, batch):
        characters = batch["characters"][0].decode().split()
        return {"marks": [["，" if character == "说" else "" for character in characters]]}


@pytest.mark.parametrize("streams", [None, Streams(Model("他说三十个"))])
def test_lines_have_marks_and_numbers_in_digits(capsys, streams):
    blocks = make_blocks(5, 2, 2, wait=0.02)
    live_terminal.transcribe(Model("他说三十个"), blocks, INFO, streams, Punctuate())
    assert capsys.readouterr().out.split("\n") == ["他说，30个", "他说，", ""]


def test_a_terminal_dims_text_that_may_change(monkeypatch):
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", terminal)
        live_terminal.transcribe(Model(), make_blocks(4, 2, wait=0.02), INFO)
    said = os.read(reader, 100000).decode()
    os.close(reader)
    shown = [re.sub("\033\\[2m(.*)\033\\[0m", r"(\1)", each) for each in said.split("\r\033[K")]
    assert shown[-1] == "一二三四\r\n"
    texts = [each.replace("(", "").replace(")", "") for each in shown[1:-1]]
    assert texts == sorted(texts, key=len) and any(re.fullmatch(r"一+.*\(.+\)", each) for each in shown)


def test_a_long_line_shows_only_its_end():
    assert live_terminal._find_tail("你好abc", 5) == "好abc"
    assert live_terminal._find_tail("你好abc", 4) == "abc"
    assert live_terminal._find_tail("你好", 80) == "你好"
    assert live_terminal._find_tail("你好", 1) == ""


@pytest.fixture
def python_ends_on_ctrl_c():
    """Restores the SIGINT handler of a terminal, because a background job of a shell ignores SIGINT."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("python_ends_on_ctrl_c")
@pytest.mark.parametrize("is_endless", [False, True])
def test_ctrl_c_ends_the_audio_after_the_blocks_read_so_far(capsys, is_endless):
    """Ctrl-C works while the model runs, and blocks from the source are not lost."""
    given = threading.Event()

    class Interrupted(Model):
        def run(self, batch):
            assert given.wait(30)
            if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
                os.kill(os.getpid(), signal.SIGINT)
            return super().run(batch)

    def speak():
        yield from make_blocks(3, 2 * is_endless)
        given.set()
        while is_endless:
            yield from make_blocks(3, 2)
        time.sleep(60)

    began = time.monotonic()
    live_terminal.transcribe(Interrupted(), speak(), INFO)
    said = capsys.readouterr().out
    assert said.startswith("一二三\n") and (is_endless or said == "一二三\n")
    assert time.monotonic() - began < 30
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def read_pipe(*contents, rate=16000):
    """Writes the contents into a pipe one by one, and returns the samples that are read from it."""
    reader, writer = os.pipe()
    for content in contents:
        os.write(writer, content)
    os.close(writer)
    with open(reader, "rb") as file:
        return np.concatenate(list(live_terminal.read_pcm(file, rate)))


@pytest.mark.parametrize("rate", [16000, 8000])
def test_samples_are_read_from_a_pipe(rate):
    tone = np.round(20000 * np.sin(np.arange(16000) * 2 * np.pi * 200 / 16000)).astype("<i2")
    found = read_pipe(tone.tobytes() + b"\1", rate=rate)  # the last byte is half a sample
    assert len(found) == rate and found.dtype == np.float32
    expected = 20000 / 32768 * np.sin(np.arange(rate) * 2 * np.pi * 200 / rate)
    np.testing.assert_allclose(found[200:-200], expected[200:-200], atol=1e-3)


def test_an_audio_file_in_a_pipe_is_refused(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(16000), 44100)
    with open(tmp_path / "a.wav", "rb") as file, pytest.raises(errors.UserError) as refused:
        next(live_terminal.read_pcm(file, 16000))
    assert str(refused.value) == (
        "standard input begins like an audio file, but must contain only samples, without a header; "
        "omit --live, or convert the audio with ffmpeg -i FILE -ac 1 -ar 16000 -f s16le -"
    )


def test_a_wav_file_in_a_pipe_as_arecord_writes_it():
    samples = np.arange(-8000, 8000, dtype="<i2")
    content = io.BytesIO()
    soundfile.write(content, samples, 16000, format="WAV")
    found = read_pipe(content.getvalue()[:44], samples.tobytes())
    np.testing.assert_array_equal(found, np.float32(samples) / 32768)


def test_exceptions_of_the_source_reach_the_caller():
    def broken():
        yield np.zeros(1600, np.float32)
        raise errors.UserError("microphone: is gone")

    with pytest.raises(errors.UserError, match="microphone: is gone"):
        live_terminal.transcribe(Model(), broken(), INFO)


class InputStream:
    """A fake sounddevice.InputStream, which sends five blocks as soon as it is opened."""

    def __init__(self, blocksize, callback, **options):
        assert options == {"samplerate": 16000, "channels": 1, "dtype": "float32"}
        self._blocksize, self._callback = blocksize, callback

    def __enter__(self):
        for value in range(5):
            self._callback(np.full((self._blocksize, 1), value, np.float32), self._blocksize, None, None)

    def __exit__(self, *_):
        pass


def refuse_stream(**_):
    raise OSError("Error querying device -1")


@pytest.mark.parametrize("max_blocks", [600, 3])
def test_blocks_of_the_microphone_and_a_warning_if_the_queue_is_full(monkeypatch, capsys, max_blocks):
    monkeypatch.setattr(live_terminal, "_MAX_BLOCKS", max_blocks)
    fake = types.SimpleNamespace(InputStream=InputStream, PortAudioError=OSError)
    monkeypatch.setitem(sys.modules, "sounddevice", fake)
    blocks = live_terminal.open_microphone(16000)
    found = [next(blocks) for _ in range(3)]
    assert found[0].shape == (1600,) and [block[0] for block in found] == [0, 1, 2]
    warning = "warning: some audio was lost, because the model is slower than the speech"
    assert (warning in capsys.readouterr().err) == (max_blocks == 3)


@pytest.mark.parametrize(
    "module, problem",
    [
        (
            types.SimpleNamespace(InputStream=refuse_stream, PortAudioError=OSError),
            "the microphone cannot be opened .*querying device -1.*; connect",
        ),
        (None, "the microphone needs sounddevice, which cannot be imported .*install 'estimator-asr.live.'"),
    ],
)
def test_a_missing_microphone_or_sounddevice_is_an_error(monkeypatch, module, problem):
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    with pytest.raises(errors.UserError, match=problem):
        next(live_terminal.open_microphone(16000))
