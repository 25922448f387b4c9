"""Tests Kokoro with a fake ONNX Runtime session: phonemes, styles, speakers, error messages."""

import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import types

import numpy as np
import pytest

from tfrecord_builder import errors
from tfrecord_builder.synthesis import kokoro, prompts, text_plan

# The symbols in Kokoro-82M's config.json that Mandarin needs.
SYMBOLS = " ,AIObdefghijklmnopstuvwxyzaɑɔɕəɚɛɤɥɨŋɹɻʂʊʌʤʦʧʨʰꭧˈ→↗↓↘"
VOICES = ("af_heart", "zf_xiaobei", "zm_yunxi")
TONE = np.sin(2 * np.pi * 440 * np.arange(12000) / 24000).astype(np.float32)  # half a second


class FakeSession:
    """Stores its inputs and returns TONE as speech."""

    runs: list = []

    def __init__(self, path, options, providers):
        self.threads = (options.intra_op_num_threads, options.inter_op_num_threads)
        if pathlib.Path(path).read_text() == "broken":
            raise RuntimeError("[ONNXRuntimeError] : 7 : INVALID_PROTOBUF")

    def get_inputs(self):
        return [types.SimpleNamespace(name="input_ids")]

    def run(self, outputs, feeds):
        self.runs.append({"threads": self.threads, **feeds})
        return [TONE[None]]


@pytest.fixture
def runs(monkeypatch):
    fake = types.ModuleType("onnxruntime")
    fake.__spec__ = importlib.machinery.ModuleSpec("onnxruntime", None)
    fake.InferenceSession, fake.SessionOptions = FakeSession, types.SimpleNamespace
    fake.set_seed = lambda seed: None
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    monkeypatch.setattr(FakeSession, "runs", [])
    return FakeSession.runs


@pytest.fixture
def model_dir(tmp_path, runs):
    """A model whose style vector for voice number v and n phonemes contains only the value 1000 v + n."""
    (tmp_path / "kokoro.onnx").touch()
    (tmp_path / "vocab.json").write_text(json.dumps({symbol: 10 + i for i, symbol in enumerate(SYMBOLS)}))
    (tmp_path / "voices").mkdir()
    for number, voice in enumerate(VOICES):
        styles = 1000 * number + np.arange(1, 511, dtype="<f4").repeat(256)
        styles.tofile(tmp_path / "voices" / f"{voice}.bin")
    return tmp_path


def make_engine(model_dir):
    return kokoro.KokoroEngine(1, str(model_dir))


def make_prompt(speaker):
    pinyin = ("ni3", "hao3", "xiao3", "hu3")
    return prompts.Prompt("u1", "train", speaker, (("你好",), ("小虎",)), pinyin, "你好，小虎")


@pytest.mark.parametrize(
    "syllable, phonemes",
    [
        ("zhong1", "ꭧʊ→ŋ"),
        ("guo2", "kwo↗"),
        ("chi4", "ꭧʰɨ↘"),
        ("zi5", "ʦɨ"),
        ("you3", "jou↓"),
        ("liu2", "ljou↗"),
        ("ju4", "ʨy↘"),
        ("yuan2", "ɥɛ↗n"),
        ("nv3", "ny↓"),
        ("er2", "ɚ↗"),
        ("bo1", "pwo→"),
        ("o2", "ɔ↗"),
        ("huar1", "xwa→ɻ"),
        ("h", "ˈAʧ"),
        ("w", "dˈʌbju"),
    ],
)
def test_phonemes_equal_those_of_misaki(syllable, phonemes):
    assert kokoro.to_phonemes(syllable) == phonemes


def test_the_style_depends_on_the_number_of_phonemes(model_dir, runs):
    engine = make_engine(model_dir)
    (speaker,) = engine.make_speakers(["zf_xiaobei"], 1)
    samples = engine.open()(make_prompt(speaker))
    (feeds,) = runs
    spelled = "ni↓xau↓, ɕjau↓xu↓"
    assert feeds["input_ids"].tolist() == [[0, *(10 + SYMBOLS.index(symbol) for symbol in spelled), 0]]
    assert feeds["input_ids"].dtype == np.int64
    assert feeds["style"].tolist() == [[1000 + len(spelled)] * 256]
    assert feeds["speed"].shape == (1,) and abs(feeds["speed"][0] - speaker.speed) <= 0.1
    assert feeds["threads"] == (1, 1)
    assert samples.shape == (8000,)
    assert np.argmax(np.abs(np.fft.rfft(samples))) == 220  # 440 Hz at 16 kHz, in bins of 2 Hz


def test_spells_latin_letters(model_dir, tmp_path):
    text_dir = tmp_path / "text"
    text_dir.mkdir()
    (text_dir / "train.tsv").write_text("hanzi\tpinyin\n买GPS卡\t\n买ü卡\t\n", encoding="utf-8")
    config = text_plan.SynthesisConfig(text_dir=(str(text_dir),), tts="kokoro", num_speakers=1)
    engine = make_engine(model_dir)
    (prompt,), ((rejected, *_),) = text_plan.make_plan(config, engine)
    assert prompt.pinyin == ("mai3", "g", "p", "s", "ka3")
    assert " ".join(engine.spell(prompt)) == "mai↓ ʤˈipˈiˈɛs kʰa↓"
    assert rejected == "text-train-3"


def test_spaces_between_latin_words_are_silent(model_dir):
    """There are pauses only at punctuation in the text."""
    tokens = (*"okgo", "ni3", "hao3")
    prompt = prompts.Prompt("u", "train", None, (("ok", " ", "go"), ("你好",)), tokens, "ok go，你好")
    assert make_engine(model_dir).spell(prompt) == ["ˈOkˈA", "ʤˈiˈO,", "ni↓xau↓"]


def test_the_longest_prompt_fits_the_styles(model_dir):
    longest = max(map(len, map(kokoro.to_phonemes, [*"abcdefghijklmnopqrstuvwxyz", "zhuangr4", "shuangr4"])))
    assert text_plan._MAX_TOKENS * (longest + len(", ")) <= kokoro._STYLES[0]


def test_speakers_are_voices_then_blends_of_two(model_dir, runs):
    engine = make_engine(model_dir)
    speakers = engine.make_speakers(["zf_xiaobei", "zm_yunxi"], 5)
    assert len({speaker.name for speaker in speakers}) == 5
    assert [speaker.name for speaker in speakers[:2]] == ["zf_xiaobei", "zm_yunxi"]
    assert all(0.85 <= speaker.speed <= 1.15 for speaker in speakers)
    (first, percent), (second, others) = speakers[2].weights
    assert (first, second, percent + others) == ("zf_xiaobei", "zm_yunxi", 100)
    assert speakers[2].name == f"zf_xiaobei{percent}+zm_yunxi{others}"
    engine.open()(make_prompt(speakers[2]))
    assert runs[0]["style"][0, 0] == pytest.approx(17 + 1000 * (1 * percent + 2 * others) / 100)
    assert engine.make_speakers(["zf_xiaobei", "zm_yunxi"], 5) == speakers


def test_blends_need_two_voices(model_dir):
    assert len(make_engine(model_dir).make_speakers(["zf_xiaobei"], 5)) == 1


def test_the_vocabulary_can_be_in_config_json(model_dir):
    vocabulary = (model_dir / "vocab.json").read_text()
    (model_dir / "config.json").write_text(f'{{"n_token": 178, "vocab": {vocabulary}}}')
    (model_dir / "vocab.json").unlink()
    assert make_engine(model_dir).list_voices() == list(VOICES)


def test_missing_onnxruntime_error_says_how_to_install_it(model_dir, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(errors.UserError, match="not installed; run: pip install 'onnxruntime>=1.17'"):
        make_engine(model_dir)


@pytest.mark.parametrize(
    "file, content, problem",
    [
        ("kokoro.onnx", None, "kokoro.onnx or voices/.* is missing"),
        ("vocab.json", None, "vocab.json or config.json must contain the vocabulary"),
        ("vocab.json", "[]", "vocab.json or config.json must contain the vocabulary"),
        ("vocab.json", json.dumps(dict.fromkeys(SYMBOLS[:-2])), "the vocabulary lacks the symbols ↓ ↘"),
    ],
)
def test_missing_model_files_are_named(model_dir, file, content, problem):
    (model_dir / file).unlink()
    if content:
        (model_dir / file).write_text(content)
    message = f"--model={model_dir}: {problem}. The directory of Kokoro-82M"
    with pytest.raises(errors.UserError, match=message):
        make_engine(model_dir)


def test_a_damaged_model_is_refused(model_dir):
    (model_dir / "kokoro.onnx").write_text("broken")
    with pytest.raises(errors.UserError, match="kokoro.onnx cannot be loaded .*INVALID_PROTOBUF"):
        make_engine(model_dir).open()


def test_a_model_with_other_inputs_is_refused(model_dir, monkeypatch):
    def refuse(self, outputs, feeds):
        raise RuntimeError("[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : Invalid Feed Input Name:style")

    monkeypatch.setattr(FakeSession, "run", refuse)
    engine = make_engine(model_dir)
    (speaker,) = engine.make_speakers(["zm_yunxi"], 1)
    message = "kokoro.onnx cannot be run .*Input Name:style.*. The directory of Kok"
    with pytest.raises(errors.UserError, match=message):
        engine.open()(make_prompt(speaker))


def test_a_damaged_voice_is_refused(model_dir):
    engine = make_engine(model_dir)
    (model_dir / "voices" / "zm_yunxi.bin").write_bytes(bytes(400))
    (speaker,) = engine.make_speakers(["zm_yunxi"], 1)
    with pytest.raises(errors.UserError, match="voices/zm_yunxi.bin has 100 values, expected 130560. The"):
        engine.open()(make_prompt(speaker))
