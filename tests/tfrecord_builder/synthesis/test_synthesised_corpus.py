"""The directory of a synthesised corpus; other directories are refused."""

from __future__ import annotations

import os

import pytest

from tfrecord_builder import errors
from tfrecord_builder.synthesis import espeak, prompts, synthesised_corpus, text_plan

ENGINE = espeak.EspeakEngine(seed=1)


def claim(directory, seed=1, pinyin=("ni3", "hao3"), text_dir="t"):
    config = text_plan.SynthesisConfig(text_dir=(text_dir,), tts="espeak", synthesis_seed=seed)
    planned = [prompts.Prompt("u1", "train", "speaker", (("你好",),), pinyin)]
    with synthesised_corpus.claim(str(directory), config, planned, ENGINE):
        pass


def test_refuses_a_corpus_of_other_settings_or_sentences(tmp_path):
    for _ in range(2):
        claim(tmp_path)
    message = (
        "the corpus there was built from different settings, sentences, pinyin or voices: .*synthesis.json"
    )
    for other in ({"seed": 2}, {"pinyin": ("ni3", "hao4")}):
        with pytest.raises(errors.UserError, match=f'{message} is .*"synthesis_seed": 1.*, expected .*; rem'):
            claim(tmp_path, **other)


def test_the_path_of_the_text_is_not_among_the_saved_settings(tmp_path):
    claim(tmp_path)
    claim(tmp_path, text_dir="moved/t")


def test_incomplete_saved_settings_are_refused(tmp_path):
    for content, shown in ((b"{}", "{}"), (b"\xff", "\ufffd")):
        (tmp_path / "synthesis.json").write_bytes(content)
        with pytest.raises(errors.UserError, match=f"synthesis.json is {shown}, expected {{ "):
            claim(tmp_path)


def test_refuses_a_directory_with_other_files(tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    message = (
        "contains files but no synthesis.json, so it is not a synthesised corpus; choose an empty or a new"
    )
    with pytest.raises(errors.UserError, match=message):
        claim(tmp_path)
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_the_output_directory_is_required():
    with pytest.raises(errors.UserError, match="--output_dir is missing; pass it"):
        synthesised_corpus.OutputConfig()
