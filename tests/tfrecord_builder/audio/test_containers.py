"""Tests the decoding of MP4, WebM, AAC and AMR by PyAV in a separate process."""

import signal
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import scripts
import telephone_files

from tfrecord_builder import errors
from tfrecord_builder.audio import audio_files, containers, ffmpeg_process

pytest.importorskip("av")


@pytest.mark.parametrize("kind", telephone_files.KINDS)
def test_a_tone_is_decoded(read, write, kind):
    path = write(telephone_files.encode(kind))
    samples = read(path, 16000)
    assert samples.dtype == np.float32
    assert len(samples) / 16000 == pytest.approx(2.0, abs=0.15)  # priming and padding of the codecs
    assert telephone_files.loudest_hz(samples) == pytest.approx(telephone_files.HZ, abs=1)
    assert np.sqrt(np.mean(samples[4000:28000] ** 2)) == pytest.approx(0.5 / np.sqrt(2), rel=0.15)
    blocks = audio_files.AudioBlocks(path, 16000)
    assert blocks.seconds == pytest.approx(2.0, abs=0.15)
    blocks.close()


def find_format(content):
    return containers.find_format(lambda count, start: content[start : start + count])


def test_formats_are_recognised_by_their_first_bytes():
    heads = [b"\0\0\0\x1cftypisom", b"\0\0\0\x08wide", b"\x1a\x45\xdf\xa3", b"#!AMR\n", b"#!AMR-WB\n"]
    assert [find_format(head) for head in heads] == ["mov", "mov", "matroska", "amr", "amr"]
    heads = [bytes.fromhex("3026b2758e66cf11"), (b"G" + bytes(187)) * 3, (bytes(4) + b"G" + bytes(187)) * 3]
    assert [find_format(head) for head in heads] == ["asf", "mpegts", "mpegts"]
    heads = [b"OggS", b"fLaC", b"RIFF", b"ID3", b"\xff", b""]
    assert [find_format(head) for head in heads] == ["ogg", "flac", "", "", "", ""]


@pytest.mark.parametrize("before", [b"", bytes(1000), b"ID3\4\0\0\0\0\1\2" + b"\xff" * 130])
def test_aac_and_mp3_are_recognised_by_two_frames(before):
    headers = {"aac": b"\xff\xf1\x60\x40", "mp3": b"\xff\xfb\x90\xc0"}
    for name, header in headers.items():
        frame = header + bytes(200)
        assert [find_format(before + count * frame) for count in (2, 1)] == [name, ""]


def test_amr_frames_without_speech_are_decoded(write):
    """The file is made by hand from frames of 12.2 kbit/s whose bits are all 0."""
    assert len(audio_files.read_audio(write(b"#!AMR\n" + (b"\x3c" + bytes(31)) * 50), 8000)) == 8000


def test_duration_of_a_webm_without_duration_is_found(write):
    blocks = audio_files.AudioBlocks(write(telephone_files.encode("webm", live="1")), 16000)
    assert blocks.seconds == pytest.approx(2.0, abs=0.05)
    assert sum(map(len, blocks)) == pytest.approx(32000, abs=200)


@pytest.mark.parametrize(
    "kind, options, problem",
    [
        ("m4a", {"movflags": "faststart"}, "it ends within a frame"),
        ("webm", {}, r"it ends at 1\.\d\d s instead of 2.01 s"),
        ("aac", {}, "it ends within a frame"),
        ("amr", {}, "it ends within a frame"),
    ],
)
def test_truncated_files_are_refused(read, write, kind, options, problem):
    content = telephone_files.encode(kind, **options)
    with pytest.raises(audio_files.AudioError, match=f"a: audio is truncated: {problem}; copy") as caught:
        read(write(content[: len(content) // 2 + 5]), 16000)
    assert caught.value.reason == audio_files.TRUNCATED


def damage(content):
    middle = len(content) // 3
    return content[:middle] + b"\x55" * 50 + content[middle + 50 :]


NO_AUDIO = bytes(range(256)) * 20


@pytest.mark.parametrize(
    "make, problem",
    [
        (lambda: telephone_files.encode("m4a")[:9000], "damaged or truncated"),  # its index is at the end
        (lambda: damage(telephone_files.encode("m4a")), "damaged or truncated"),
        (lambda: b"\0\0\0\x18ftypM4A " + NO_AUDIO, "damaged or truncated"),
        (lambda: b"\x1a\x45\xdf\xa3" + NO_AUDIO, "damaged or truncated"),
        (lambda: b"#!AMR\n" + NO_AUDIO, "damaged or truncated"),
        (lambda: b"\xff\xf1" + NO_AUDIO, "Format not recognised"),
        (lambda: telephone_files.encode("m4a", 0.0, video_seconds=1.0), "no audio track that can be decoded"),
    ],
)
def test_files_that_cannot_be_decoded_are_refused(read, write, make, problem):
    message = rf"a: the file cannot be read as WAV, .* or MPEG-TS \({problem}\)$"
    with pytest.raises(audio_files.AudioError, match=message) as caught:
        read(write(make()), 16000)
    assert caught.value.reason == audio_files.UNREADABLE


def test_a_file_without_frames_is_refused_as_empty(read, write):
    with pytest.raises(audio_files.AudioError, match="a: audio is empty or shorter") as caught:
        read(write(b"#!AMR\n"), 16000)
    assert caught.value.reason == audio_files.EMPTY


def test_audio_shorter_than_its_video_is_not_truncated(write):
    assert len(audio_files.read_audio(write(telephone_files.encode("m4a", video_seconds=5.0)), 16000)) < 33000


@pytest.mark.long
def test_a_segment_of_a_long_file_is_read(write):
    path = write(telephone_files.encode("m4a", 60.0))
    part = audio_files.read_audio(path, 16000, start_seconds=1.0, seconds=0.5)
    assert len(part) == 8000
    assert telephone_files.loudest_hz(part) == pytest.approx(telephone_files.HZ, abs=2)
    with pytest.raises(audio_files.AudioError, match="audio is longer than 3 s; cut or remove it"):
        audio_files.read_audio(path, 16000, max_seconds=3.0)


@pytest.mark.long
def test_decoding_stops_soon_after_max_seconds(write):
    """Ten minutes of silence need only a few bytes, like a decompression bomb."""
    content = telephone_files.encode("m4a", 600.0, level=0.0)
    assert len(content) < 300_000
    blocks = audio_files.AudioBlocks(write(content), 16000, max_seconds=2.0)
    assert blocks.seconds == pytest.approx(600, abs=0.1)
    assert 32000 < sum(map(len, blocks)) < 3.2 * 16000


@pytest.mark.long
def test_closing_a_reader_ends_the_decoding_process(write, monkeypatch):
    path, processes, start = write(telephone_files.encode("m4a", 600.0, level=0.0)), [], subprocess.Popen

    def note(*arguments, **options):
        processes.append(start(*arguments, **options))
        return processes[-1]

    monkeypatch.setattr(subprocess, "Popen", note)
    started = time.monotonic()
    audio_files.AudioBlocks(path, 16000).close()
    assert time.monotonic() - started < 10
    assert processes and all(each.poll() is not None for each in processes)


def put_in_place(monkeypatch, tmp_path, command):
    """Replaces Python with a shell script, which ends as a decoding process can end."""
    scripts.write(tmp_path, {"python": command})
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))


@pytest.mark.parametrize(
    "command, problem",
    [
        ("kill -ALRM $$", "decoding takes too long; convert the file to WAV or FLAC"),
        ("echo 8000 1 2.0; kill -XCPU $$", "decoding takes too long; convert the file to WAV or FLAC"),
        ("kill -SEGV $$", "damaged or truncated"),
        ("echo 8000 1 2.0; kill -ABRT $$", "damaged or truncated"),
        ("echo \"No module named 'av'; run pip\"; exit 1", "No module named 'av'; run pip"),
    ],
)
def test_a_decoding_process_that_dies_is_an_error(read, write, monkeypatch, tmp_path, command, problem):
    put_in_place(monkeypatch, tmp_path, command)
    with pytest.raises(errors.UserError, match=rf"a: the file cannot be read as .* \({problem}\)"):
        read(write(telephone_files.encode("m4a")), 16000)


def test_a_full_disk_is_not_a_damaged_file(read, write, monkeypatch, tmp_path):
    put_in_place(monkeypatch, tmp_path, "echo 'OSError: [Errno 28] No space left on device'; exit 1")
    with pytest.raises(audio_files.AudioError, match="No space left on device") as caught:
        read(write(telephone_files.encode("m4a")), 16000)
    assert caught.value.reason == audio_files.DISK_FAILED


def run_process(change, file, wav):
    """Runs the decoding process on a file after the Python code `change`; returns the completed process."""
    code = f"import time\nfrom tfrecord_builder.audio import ffmpeg_process as c\n{change}\n"
    words = [sys.executable, "-c", f"{code}c.run('mov', '{wav.fileno()}', 'inf')"]
    return subprocess.run(words, stdin=file, capture_output=True, timeout=60, pass_fds=[wav.fileno()])


@pytest.mark.long
def test_the_decoding_process_has_limits_of_time_memory_and_output(write, tmp_path):
    path = write(telephone_files.encode("m4a", 60.0, level=0.0))
    with open(path, "rb") as file, open(tmp_path / "b.raw", "wb") as raw:
        assert run_process("", file, raw).returncode == 0
        burn = "c.CPU_SECONDS = 0.5; c._extend_time(0)\nwhile True: pass"
        assert run_process(burn, file, raw).returncode == -signal.SIGXCPU
        wait = "c.STALLED_SECONDS = 1; c._extend_time(0); time.sleep(60)"
        assert run_process(wait, file, raw).returncode == -signal.SIGALRM
        assert b"File too large" in run_process("c.MAX_RAW_BYTES = 1000", file, raw).stderr
        allocate = "c.MAX_MEMORY_BYTES = 1 << 28; c._write = lambda *_: bytes(1 << 28)"
        assert b"MemoryError" in run_process(allocate, file, raw).stderr


def test_missing_pyav_is_explained(write):
    with open(write(telephone_files.encode("m4a")), "rb") as file:
        done = run_process("import sys; sys.modules['av'] = None", file, file)
    assert done.stderr.decode().strip().endswith("run pip install 'estimator-asr[containers]'")
    assert done.returncode == 1 and b"Traceback" not in done.stderr


def test_packets_are_counted_only_up_to_max_seconds(write):
    """A megabyte of AMR frames of one byte lasts six hours; counting all packets would take seconds."""
    blocks = audio_files.AudioBlocks(write(b"#!AMR\n" + b"\x7c" * (1 << 20)), 16000, max_seconds=60)
    assert blocks.seconds == pytest.approx(60, abs=1)
    blocks.close()


def test_channels_are_interleaved():
    """The frame has two float32 samples per channel, in planes that are longer than the samples."""
    planes = [np.array(values, np.float32) for values in ([1, 2, 9], [3, 4, 9])]
    frame = types.SimpleNamespace(samples=2, planes=planes)
    frame.planes = [memoryview(plane).cast("B") for plane in planes]
    (samples,) = ffmpeg_process._interleave(frame)
    assert list(samples) == [1, 3, 2, 4]
    frame.planes = frame.planes[:1]
    assert b"".join(ffmpeg_process._interleave(frame)) == np.float32([1, 2]).tobytes()


def test_the_time_for_the_second_pass_does_not_include_the_first(monkeypatch):
    """For a file of ten hours, reading all packets takes more CPU time than decoding the first second may."""
    limits, container = [], types.SimpleNamespace(format=types.SimpleNamespace(name="mov"))
    monkeypatch.setattr(ffmpeg_process.time, "process_time", lambda: 12.0)
    monkeypatch.setattr(ffmpeg_process.resource, "setrlimit", lambda _, values: limits.append(values[0]))
    monkeypatch.setattr(ffmpeg_process.signal, "alarm", lambda _: None)
    clock = ffmpeg_process._Clock(container, 100.0)
    for position in (0.5, 1.0, 1.5, 10.0):
        clock.extend_time(position)
    assert limits == [18, 19]  # 12 + 5 + 0.2 seconds for each second of audio, rounded up
