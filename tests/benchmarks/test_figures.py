"""Tests the calculations in the benchmarks: counts, error rates, limits, and the data given to both sides."""

import importlib.util
import io
import math
import mmap
import os
import subprocess

import numpy as np
import pytest
import soundfile

from benchmarks import (
    bars,
    comparison,
    coverage,
    decoding,
    hotwords,
    live,
    machine,
    noise,
    pauses,
    speech_bounds,
)
from benchmarks.devices import __main__ as devices
from benchmarks.devices import starts
from benchmarks.input_methods import __main__ as input_methods
from benchmarks.input_methods import peers
from benchmarks.pretrained import random_whisper
from benchmarks.real_time import __main__ as real_time
from benchmarks.serving import __main__ as serving
from benchmarks.serving import clients, process
from benchmarks.serving import clips as serving_clips
from benchmarks.train_step import work
from benchmarks.transcription import __main__ as transcription
from estimator_asr.experiment import config as config_lib
from estimator_asr.pretrained import encoder_weights
from tfrecord_builder import errors
from tfrecord_builder.data import manifest


@pytest.mark.parametrize("noise_level", [0.0, 0.03])  # 0.03: noise that peaks at 12 % of the tone's level
def test_speech_begins_and_ends_where_it_is_louder_than_the_noise(noise_level):
    waveform = noise_level * np.random.default_rng(1).normal(size=32000)
    waveform[8000:24000] += np.sin(np.arange(16000))
    waveform[1000] = 1  # a click
    assert speech_bounds.find_speech(waveform, 16000) == pytest.approx((8000, 24000), abs=320)


def test_a_recording_without_silence_is_all_speech():
    assert speech_bounds.find_speech(np.sin(np.arange(16000)), 16000) == (0, 16000)


def test_bars_say_whether_they_are_met(capsys):
    met, missed = bars.Bar("speed", 1234.5, minimum=1200), bars.Bar("memory", 601, maximum=600)
    assert bars.show([met]) == 0 and bars.show([met, missed]) == 1
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "PASS  speed: 1,234.50 (at least 1,200)",
        "FAIL  memory: 601.00 (at most 600)",
    ]
    assert bars.ratio([2.0, 9.0, 4.0], [1.0, 1.0, 1.0]) == 4.0


class Losses:
    """Simulates training steps with the given losses and a gradient norm of 2."""

    def __init__(self, *losses):
        self.losses = list(losses)

    def step(self):
        return self.losses.pop(0), 2.0


def test_the_largest_difference_of_three_steps_counts():
    sides = {"ours": Losses(4.0, 5.002, 8.0), "PyTorch": Losses(4.0, 5.0, 8.0008)}
    assert [str(bar) for bar in comparison.compare(sides, "stored, ")] == [
        "FAIL  stored, loss, apart by millionths: 400.00 (at most 100)",
        "PASS  stored, gradient norm, apart by millionths: 0.00 (at most 100)",
    ]


def test_loops_take_turns_and_the_first_round_does_not_count():
    called = []
    loops = {name: lambda name=name: called.append(name) for name in ("ours", "peer")}
    seconds = comparison.time_in_turns(loops, rounds=2)
    assert called == 3 * ["ours", "peer"]
    assert {name: len(taken) for name, taken in seconds.items()} == {"ours": 2, "peer": 2}


@pytest.mark.parametrize(
    ("spec", "cores", "message"),
    [
        ("torch", {3}, "this process may use only one core; run the benchmark where it may use two"),
        (None, {3, 5}, "the peer PyTorch is not installed; run python -m pip install -r benchmarks/req"),
    ],
)
def test_what_is_missing_is_named(monkeypatch, spec, cores, message):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: cores)
    with pytest.raises(errors.UserError, match=f"^benchmarks: {message}"):
        machine.check("torch", "PyTorch")


def test_a_benchmark_runs_with_one_core_and_then_with_two(monkeypatch):
    commands = []

    def run(command, check):
        commands.append(command[1:])
        return subprocess.CompletedProcess(command, returncode=len(commands) % 2)

    monkeypatch.setattr(subprocess, "run", run)
    code = machine.run_on_cores("benchmarks.x", real_time.BenchmarkConfig(rounds=3), None)
    assert code == 1  # the first run failed
    started = ["-m", "benchmarks.x", "--rounds=3"]
    assert commands == [[*started, "--num_cores=1"], [*started, "--num_cores=2"]]


@pytest.mark.long
@pytest.mark.parametrize("design", coverage.DESIGNS[:6], ids=lambda design: design.name)
def test_the_interval_covers_the_true_rate_often_enough(design):
    slack = 3 * math.sqrt(0.95 * 0.05 / 100)  # three standard deviations of a fraction of 95 %
    covered, width = coverage.cover(design, design.clusterings(), 100, seed=0)
    assert covered >= 0.95 - slack
    if design == coverage.ALL_BY_ALL:
        utterances = [np.arange(design.num_speakers * design.num_each)]
        naive, narrow = coverage.cover(design, utterances, 50, seed=0)
        assert covered <= 0.95 + slack and naive < 0.95 - 3 * slack and narrow < width / 3


def test_the_simulated_rate_is_the_true_one():
    design = coverage.Design("many", 1000, 50, 1000)
    edits = coverage.simulate(design, np.random.default_rng(0))
    assert len(edits) == 50_000 and {each.reference_length for each in edits} == set(range(5, 21))
    rate = sum(each.errors for each in edits) / sum(each.reference_length for each in edits)
    assert rate == pytest.approx(coverage.RATE, rel=0.05)
    speakers, sentences = coverage.Design("three by two", 3, 2, 2).clusterings()
    assert speakers.tolist() == [0, 0, 1, 1, 2, 2] and sentences.tolist() == [0, 1] * 3
    assert coverage.Design("own", 2, 2, 4).clusterings()[1].tolist() == [0, 1, 2, 3]


@pytest.mark.long
def test_skipped_blanks_change_no_text():
    config = decoding.BenchmarkConfig(num_utterances=16, num_frames=20, num_classes=30)
    log_probs = decoding.make_posteriors(config)
    np.testing.assert_allclose(np.exp(log_probs).sum(axis=-1), 1, rtol=1e-4)
    blank = np.exp(log_probs[..., -1])
    assert np.median(blank[:, [0, 1, 3, 4]]) > 0.99 and np.median(blank[:, 2::5]) < 0.5
    whole, skipping = (decoding.build_ours(30, limit) for limit in (1.0, 0.99))
    assert whole(log_probs) == skipping(log_probs)
    assert np.mean([len(text) for text in whole(log_probs)]) > 3  # four frames have tokens


def test_texts_of_decoders_are_compared_with_the_first(capsys):
    sides = {"ours": lambda: ["a", "b"], "batches": lambda: ["a", "b"], "peer": lambda: ["a", "c"]}
    decoding.time_sides(sides, 2, rounds=2)
    assert [line.split()[-2] for line in capsys.readouterr().out.splitlines()[1:]] == ["100", "100", "50"]


@pytest.mark.parametrize(
    ("reference", "transcript", "expected"),
    [
        ("我在重庆", "我在重庆", (1, 1, 1, 0, 2)),
        ("我在重庆", "我在从轻", (0, 1, 0, 0, 2)),
        ("我在重庆", "他在重新庆", (0, 1, 0, 1, 2)),
        ("我在这里", "我在重庆", (0, 0, 1, 2, 4)),
        ("重庆重庆好", "重庆好", (1, 2, 1, 0, 1)),
        ("我在重庆", "", (0, 1, 0, 2, 2)),
    ],
)
def test_hotwords_are_counted(reference, transcript, expected):
    assert hotwords.count(["重庆", "北京"], [reference], [transcript]) == expected


def test_hotwords_are_rare_words_of_the_speech_and_words_that_it_lacks():
    text = ["我们讨论天气", "讨论问题", "我们经济问题", "天气预报"]
    words, others = hotwords.choose(["我们讨论这个问题", "我们讨论经济"], text, 2, seed=1)
    assert words[:1] == ["这个"] and set(words) <= {"这个", "经济"}
    assert "天气" in others and set(others) <= {"天气", "天气预报", "预报"}


def test_bars_of_hotwords():
    counts = {
        "without": hotwords.Counts(80, 100, 80, 10, 1000),
        "with": hotwords.Counts(95, 100, 96, 12, 1000),
    }
    found = hotwords.make_bars(counts, {"without": [2.0, 2.0], "1000": [2.1, 2.1]})
    assert [round(bar.value, 4) for bar in found] == [0.95, 0.9896, 0.2, 1.05]
    assert [bar.is_met for bar in found] == [True, False, False, True]


def make_message(stable, partial, first, ends):
    characters = [{"character": text, "end": end} for text, end in zip((stable + partial)[first:], ends)]
    settled = {"num_stable": len(stable), "first": first, "characters": characters}
    return {"type": "partial", "stable": stable, "partial": partial, **settled}


@pytest.fixture
def spoken():
    return live.Spoken(
        [
            (1.0, make_message("", "你好", 0, [0.4, 0.8])),
            (1.5, make_message("你", "好", 0, [0.4, 0.8])),
            (2.0, make_message("你好", "", 1, [0.8])),
            (2.5, {"type": "final", "text": "你好", "characters": [{"character": "你", "end": 0.4}]}),
        ],
        2.2,
    )


def test_delays_are_those_of_settled_characters(spoken, capsys):
    assert spoken.list_delays() == pytest.approx([1.1, 1.2])
    assert live.show([(0, spoken)], ["你好"]) == 0
    assert live.show([(0, spoken), (1, spoken)], ["你好", "您好"]) == 1
    output = capsys.readouterr().out
    assert "2 characters, late by: 50 % 1.15 s" in output
    assert "FAIL  agreement with uploads, %: 75.00 (at least 99)" in output


@pytest.mark.parametrize(
    ("stable", "text", "changes"), [("你好", "你好", 0), ("你号", "你好", 1), ("您好", "您好", 1)]
)
def test_changes_of_settled_text_are_counted(spoken, stable, text, changes):
    last = [(2.0, make_message(stable, "", 1, [0.8])), (2.5, {**spoken.final, "text": text})]
    assert live.Spoken(spoken.messages[:2] + last, 2.2).count_changes() == changes


def test_a_stream_that_failed():
    failed = live.Spoken([(1.0, {"type": "error", "error": {"message": "stream: is full"}})], 2.2)
    with pytest.raises(errors.UserError, match="/v1/stream: stream: is full"):
        failed.count_changes()


def power(samples, low, high):
    hz = np.fft.rfftfreq(len(samples), 1 / noise.RATE)
    return np.mean(np.square(np.abs(np.fft.rfft(samples)))[(hz >= low) & (hz < high)])


@pytest.mark.parametrize(("name", "ratio"), [("white", 1), ("pink", 4), ("brown", 16)])
def test_the_power_of_noise_two_octaves_lower(name, ratio):
    samples = noise.MAKERS[name](np.random.default_rng(1), 160000)
    assert power(samples, 500, 600) / power(samples, 2000, 2400) == pytest.approx(ratio, rel=0.2)


@pytest.mark.long
def test_noise_is_the_same_again_and_of_all_kinds():
    makers = {**noise.MAKERS, "babble": noise.make_babble([[np.ones(30000)]] * 3)}
    items, again = (noise.make_items(makers, 240, seed=5) for _ in range(2))
    np.testing.assert_array_equal(items[3].waveform, again[3].waveform)
    for kind in makers:
        lengths = [len(each.waveform) for each in items if each.kind == kind]
        assert sum(lengths) == 40 * noise.RATE and max(lengths) <= 15 * noise.RATE
    assert all(np.isfinite(each.waveform).all() and np.abs(each.waveform).max() <= 1 for each in items)


def test_babble_is_8_to_12_voices_without_pauses():
    babble = noise.make_babble([[np.full(400, 10.0**-i)] for i in range(20)])
    for seed in range(9):
        assert 8 <= f"{babble(np.random.default_rng(seed), 1000)[500]:.19f}".count("1") <= 12
    word = np.random.default_rng(1).normal(size=1600)
    recording = np.concatenate([np.zeros(1600), word, 1e-2 * word, word, np.zeros(100)])
    np.testing.assert_array_equal(noise.drop_pauses(recording), np.concatenate([word, word]))
    assert len(noise.drop_pauses(np.zeros(900))) == 0


def test_characters_written_for_noise_are_counted():
    written = [noise.Written("hum", 30, 0.5, [0.4, 0.6]), noise.Written("hum", 60, 0.0, [])]
    assert noise.measure(written) == (1.5, 2 / 1.5, 0.5, 0.6)
    assert noise.measure(written[1:]) == (1.0, 0.0, 0.0, 0.0)


def test_the_better_format_counts_and_the_worse_start(tmp_path):
    (tmp_path / "model.json").write_bytes(bytes(7_000_000))
    names = ["litert float32", "onnx float32", "litert int8", "onnx int8"]
    seconds = dict(zip(["SavedModel", *names], ([1.0], [2.0], [0.5], [1.0], [0.4])))
    runs = {names[0]: [starts.Start(0.5, 100), starts.Start(0.7, 300)], names[1]: [starts.Start(0.9, 200)]}
    found = devices.find_bars(seconds, runs, dict.fromkeys(names, str(tmp_path)))
    assert [str(bar) for bar in found] == [
        "PASS  onnx float32, times as fast as the SavedModel: 2.00 (at least 1)",
        "PASS  onnx int8, times as fast as the SavedModel: 2.50 (at least 1.5)",
        "PASS  litert int8, times as fast as its float32: 2.00 (at least 1.5)",
        "PASS  onnx float32, seconds of a cold start: 0.90 (at most 1)",
        "FAIL  litert float32, MB of memory at its peak: 300.00 (at most 250)",
        "FAIL  onnx int8, MB of files: 7.00 (at most 6)",
    ]


def test_a_version_without_formats_is_refused(tmp_path):
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(errors.UserError, match="has neither litert nor onnx; .* --format=litert,onnx"):
        devices.make_or_find(devices.BenchmarkConfig(saved_model=str(tmp_path)), "")


def test_the_memory_of_a_start_is_its_own_and_a_failure_is_named():
    run = starts.measure("timeit", "-n1", "-r1", "import time; time.sleep(0.5)")
    assert run.seconds > 0.5 and 1 < run.peak_mb < 64  # this process holds TensorFlow
    with pytest.raises(errors.UserError, match="estimator_asr_runtime failed with exit code 1: .*model.json"):
        starts.measure("estimator_asr_runtime", "--model=/nowhere", "one.wav")


def make_method(hanzi, *patterns):
    packages = {f"package{number}": str(pattern) for number, pattern in enumerate(patterns)}
    return peers.InputMethod(packages, lambda files, directory: lambda syllables: hanzi)


def test_errors_of_the_installed_input_methods(tmp_path, monkeypatch, capsys):
    methods = {"one": make_method("你号", tmp_path), "other": make_method("", tmp_path / "missing")}
    monkeypatch.setattr(peers, "INPUT_METHODS", methods)
    path = tmp_path / "dev.tsv"
    path.write_text("hanzi\tpinyin\n你好\tni3 hao3\n你\tni3\n", encoding="utf-8")
    assert input_methods.main([str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1].split() == ["one", "66.67", "%", "2", "errors"]  # 号 for 好, 号 added
    missing = "other: not installed: package0 of Debian; run apt-get install package0."
    assert printed.err.splitlines()[0] == missing
    monkeypatch.setattr(peers, "INPUT_METHODS", {"other": methods["other"]})
    assert input_methods.main([str(path)]) == 1


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            ["你好。\tni3 hao3\n"],
            "dev.tsv: line 2: 3 characters, but 2 syllables; write one syllable for each",
        ),
        ([], "dev.tsv has no sentences below its first line; pass another"),
        (None, "input_methods: no file was passed; pass at least one DEV.tsv"),
    ],
)
def test_files_without_sentences_are_refused(tmp_path, rows, message):
    path = tmp_path / "dev.tsv"
    path.write_text("".join(["hanzi\tpinyin\n", *(rows or [])]), encoding="utf-8")
    with pytest.raises(errors.UserError, match=message):
        input_methods.main([] if rows is None else [str(path)])


@pytest.mark.parametrize("row", ["lv4 lv4 lv", "lü4 lv4 lv", "lu:4 lv4 lv", "lue4 lve4 lve", "de5 de5 de"])
def test_spelling(row):
    syllable, spelled, toneless = row.split()
    assert peers.spell(syllable) == spelled and peers.remove_tone(spelled) == toneless


@pytest.mark.parametrize("entered", ["xi'an", "fan'gan", "e'ren", "na'nai", "nihao", "fangun", "guniang"])
def test_separators_stand_where_syllables_could_be_others(entered):
    parts = {"nihao": "ni hao", "fangun": "fan gun", "guniang": "gu niang"}
    assert peers.join(parts.get(entered, entered.replace("'", " ")).split()) == entered


def test_long_lines_are_entered_in_parts_that_overlap():
    """The proposal for each part consists of its number, which shows which part a hanzi comes from."""
    letters, entered = "bidijiliminipiqitixi" * 2 + "bidijili", []  # 24 syllables; 19 are 38 letters

    def propose(part):
        entered.append(part)
        return str(len(entered)) * (len(part) // 2)

    syllables = [f"{letters[i : i + 2]}1" for i in range(0, len(letters), 2)]
    assert peers.convert_in_parts(syllables, propose) == 15 * "1" + 9 * "2"
    assert entered == [letters[:38], letters[22:]]
    assert peers.convert_in_parts(["ni3", "hao3"], lambda letters: "你") == "你 "


def test_random_weights_have_the_layout_of_the_published_ones(tmp_path):
    base = random_whisper.make_sizes()
    assert (base.layers, base.units, base.inner_units, base.heads) == (6, 512, 2048, 8)
    sizes = random_whisper.make_sizes(layers=3, units=16)
    encoder, tensors = encoder_weights.read(random_whisper.write(str(tmp_path / "whisper"), sizes))
    assert (encoder.layers, encoder.units, encoder.heads, encoder.num_mel_bins) == (3, 16, 1, 80)
    assert float(tensors["layers.2.fc2.weight"].std()) == pytest.approx(64**-0.5, rel=0.1)


def test_parts_of_the_real_time_factor_are_differences(monkeypatch, capsys):
    side = type("Side", (), dict.fromkeys(("frontend", "encoder", "decoding")))()
    times = [[0.1], [0.4], [0.5]]
    monkeypatch.setattr(comparison, "time_in_turns", lambda loops, rounds: dict(zip(loops, times)))
    found = real_time.time_parts({"ours": side}, 1)
    assert found["ours"] == pytest.approx({"frontend": 0.1, "encoder": 0.3, "decoding": 0.1})
    real_time.show(found, 5.0, 2)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "ours                  0.1000      100.0 ms 20%      300.0 ms 60%      100.0 ms 20%"


def test_clips_are_files_joined_until_they_are_long_enough(tmp_path):
    for number in range(5):
        soundfile.write(tmp_path / f"{number}.wav", np.full(6400, number / 100), 16000, subtype="PCM_16")
    clips = serving_clips.read(str(tmp_path), 0.75)
    assert [clip.seconds for clip in clips] == [0.8, 0.8]
    samples, rate = soundfile.read(io.BytesIO(clips[1].content))
    assert (rate, len(samples)) == (16000, 12800)
    np.testing.assert_allclose(samples[[0, -1]], [0.02, 0.03], atol=1e-4)
    with pytest.raises(errors.UserError, match="its WAV files have 2 s, expected at least 3 s; pass another"):
        serving_clips.read(str(tmp_path), 3)


def test_growth_of_memory():
    """After a warm-up of 60 MB, memory grows by 2 MB in 10 s; at 50 requests/s, that is 4 MB per 1,000."""
    memory = process.Memory()
    memory.samples = [(second, 100 + 6.0 * second) for second in range(10)]
    memory.samples += [(second, 160 + 0.2 * (second - 10)) for second in range(10, 20)]
    assert memory.growth(50) == pytest.approx(4)
    before = process.read_resident_mb(os.getpid())
    with mmap.mmap(-1, 50_000_000) as ballast:  # an array could reuse freed memory instead of new pages
        for page in range(0, len(ballast), mmap.PAGESIZE):
            ballast[page] = 1
        after = process.read_resident_mb(os.getpid())
    assert after - before == pytest.approx(50, abs=10)


def test_bars_of_serving_take_the_throughput_that_is_nearer():
    serial = clients.Load(np.full(10, 0.05), 0, 1.0)
    many = clients.Load(np.full(40, 0.1), 1, 1.0)
    found = serving.make_bars({1: 20.0, 16: 40.0}, serial, many, 0.5)
    assert [(bar.what, bar.value, bar.is_met) for bar in found] == [
        ("throughput, share of the bare SavedModel's", 1.0, True),
        ("p99, times p50", 1.0, True),
        ("errors", 1, False),
        ("growth of memory, MB per 1,000 requests", 0.5, True),
    ]
    found = serving.make_bars({16: 400.0}, serial, many, 2.0)
    assert (found[0].what, found[0].value) == ("throughput, times that of one client", 4.0)


def test_operations_of_a_training_step_are_counted():
    """Compares the count for one utterance with 8 frames and 4 bins with a count by hand."""
    batch = work.Batch(np.zeros([1, 8, 4]), np.array([8]), np.zeros([1, 2]), np.array([2]))
    sizes = {"encoder_layers": 1, "encoder_units": 10, "encoder_inner_units": 20, "attention_heads": 1}
    config = config_lib.AcousticConfig(**sizes, conv_kernel_size=3, subsampling_channels=5)
    convolutions = 4 * 2 * 9 * 5 + 2 * 1 * 9 * 5 * 5
    project = 2 * (1 * 5) * 10
    weights_of_a_block = 2 * (10 * 20 + 20 * 10) + 4 * 10 * 10 + (10 * 20 + 3 * 10 + 10 * 10)
    block = 2 * weights_of_a_block + 2 * (2 * 2 * 10)  # 2 positions; scores and weighted sums
    weights_of_decoder = 4 * 10 * 10 + 2 * 10 * 10 + 10 * 20 + 20 * 10
    decoder = 3 * weights_of_decoder + 2 * (2 * 10 * 10) + 2 * (3 * 3 * 10) + 2 * (3 * 2 * 10)
    classes = 2 * 10 * 7 + 3 * 10 * 7
    forwards = convolutions + project + block + decoder + classes
    assert work.count_operations(config, batch, 7) == 3 * 2 * forwards


def write_corpus(directory, *rows):
    """Writes a corpus with one recording per row (text, pinyin, seconds); returns its directory."""
    utterances = []
    for number, (text, pinyin, seconds) in enumerate(rows):
        path = str(directory / f"{number}.wav")
        soundfile.write(path, np.full(int(8000 * seconds), 0.01 * number), 8000)
        utterances.append(manifest.Utterance(f"u{number}", path, "", text, pinyin, "test"))
    manifest.write_manifest(str(directory / "manifest.tsv"), utterances)
    return str(directory)


def test_recordings_are_chosen_evenly_and_resampled(tmp_path):
    rows = [
        ("今天 OK。", "", 1.0),
        ("", "", 1.0),
        ("", "ni3 hao3 ma5", 1.5),
        ("好", "", 2.0),
        ("去", "", 2.5),
    ]
    found = transcription.read_recordings(write_corpus(tmp_path, *rows), 2, sample_rate=16000)
    assert [os.path.basename(each.path) for each in found] == ["0.wav", "3.wav"]  # 1.wav has no labels
    assert [each.num_labels for each in found] == [2, 1]
    assert [each.waveform.shape for each in found] == [(16000,), (32000,)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("hello", "", 1.0), "no recording has hanzi or pinyin; add transcripts to manifest.tsv"),
        (("好", "", 31.0), "0.wav: .*30"),
    ],
)
def test_a_corpus_that_both_sides_cannot_transcribe_is_refused(tmp_path, row, message):
    with pytest.raises(errors.UserError, match=message):
        transcription.read_recordings(write_corpus(tmp_path, row), 1, sample_rate=16000)


def test_joined_recordings_are_of_similar_length_and_keep_the_order():
    utterances = [pauses.Spoken("", None, np.zeros(length)) for length in (30, 20, 30, 20, 30, 20)]
    groups = pauses.join(utterances, 60)  # 150 samples in all
    assert [[len(item.waveform) for item in group] for group in groups] == [[30, 20, 30], [20, 30, 20]]
    assert pauses.join(utterances, 0) == [[item] for item in utterances] and pauses.join([], 60) == []


@pytest.mark.parametrize(
    "references, hypothesis, want",
    [
        (["你好，吗？", "是。"], "你好吗。是，", ["你好吗。", "是，"]),
        (["你好。", "是的。"], "你号啊，是。", ["你号啊，", "是。"]),  # an inserted 啊, a deleted 的
        (["你好。", "是的。"], "你好", ["你好", ""]),
        (["你好。"], "，你好。", ["你好。"]),
    ],
)
def test_a_joined_text_is_split_at_the_boundaries_of_its_references(references, hypothesis, want):
    assert pauses.split(references, hypothesis) == want
