"""What is evaluated: a model directory or an export, checked against the data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory, task_spec
from estimator_asr.saved_model import export_info, recogniser, trained_model
from estimator_asr.scoring import attribution, utterances
from tfrecord_builder.data import dataset_info
from tfrecord_builder.settings import config_json
from tfrecord_builder.tokens import vocabulary

# Measure -> (reference, a feature of the record; hypothesis, an output of the recogniser).
_TOKENS = {utterances.TOKEN_ERROR_RATE: ("pronunciation", "pinyin")}
_CHARACTERS = {utterances.CHARACTER_ERROR_RATE: ("transcript", "transcript")}
_LANGUAGE = "language"  # signature of an export, from pinyin
_SYLLABLES = ("syllable", "toneless")  # token types that are the syllables of a pronunciation

Data = Mapping[str, dataset_info.DatasetInfo]  # by directory


class Subject(NamedTuple):
    """What is evaluated."""

    recogniser: recogniser.Recogniser  # the model
    spec: task_spec.TaskSpec  # what it reads
    input: config_lib.InputConfig  # how records become batches
    measures: Mapping[str, tuple[str, str]]  # measure to reference and hypothesis
    facts: Mapping[str, object]  # name to text or number, for the report
    vocabularies: attribution.Vocabularies
    language: Optional[recogniser.Recogniser] = None  # from pinyin, in the same session
    hotwords: Sequence[str] = ()  # as the recogniser reads them


def open_model(path: str, decoding: Optional[str], data: Data) -> Subject:
    """Opens the best checkpoint of a model directory.

    Raises:
        errors.UserError: there is none, or the data are of another vocabulary or frontend.
    """
    trained = trained_model.open_trained_model(path, decoding)
    model, spec = trained.model, trained.model.config.spec
    for data_dir, info in data.items():
        model_directory.check_data(path, model.config, info, data_dir)
    measures = _measures(not spec.writes_characters, model.output_token_type)
    facts = {"model": path, "checkpoint": trained.checkpoint, "global_step": trained.global_step}
    known = _vocabularies(model.tokens, model.config.token_type, model.characters)
    build = trained_model.build_recogniser
    return Subject(build(trained), spec, model.config.input, measures, facts, known)


def open_version(version_dir: str, hotwords: Sequence[str], data: Data) -> Subject:
    """Loads a version of an export.

    Raises:
        errors.UserError: it is damaged, or the data are of another vocabulary or frontend.
    """
    exported = export_info.load(version_dir)
    for data_dir, info in data.items():
        _check_data(version_dir, exported, info, data_dir)
    loaded = recogniser.load_version(version_dir)
    has_language = exported.language is not None
    return Subject(
        loaded.find("features", hotwords),
        task_spec.ACOUSTIC,
        config_json.from_json_dict(config_lib.InputConfig, exported.input),
        _measures(True, "character" if has_language else exported.token_type),
        {"model": version_dir, **({"hotwords": len(hotwords)} if hotwords else {})},
        _read_vocabularies(version_dir, exported),
        loaded.find(_LANGUAGE) if has_language and _LANGUAGE in loaded.definitions else None,
        hotwords,
    )


def _check_data(version_dir: str, exported: export_info.ExportInfo, info, data_dir: str) -> None:
    pairs = {
        "sha256 of tokens.txt": (info.tokens_sha256[:12], exported.acoustic.tokens_sha256[:12]),
        "frontend": (info.frontend, exported.frontend),
    }
    assets = os.path.join(version_dir, "assets")
    model_directory.refuse_difference(data_dir, version_dir, pairs, assets, exported)


def _measures(has_tokens: bool, token_type: str) -> dict[str, tuple[str, str]]:
    """Returns the measures of an output of tokens, and of a transcript of the token type."""
    return {**(_TOKENS if has_tokens else {}), **(_CHARACTERS if token_type in ("character", "bpe") else {})}


def _read_vocabularies(version_dir: str, exported: export_info.ExportInfo) -> attribution.Vocabularies:
    by_digest = {each.sha256: os.path.join(version_dir, name) for name, each in exported.files.items()}

    digests = [exported.acoustic.tokens_sha256]
    digests += [exported.language.characters_sha256] if exported.language else []
    loaded = [vocabulary.Vocabulary.load(by_digest[digest]) for digest in digests]
    return _vocabularies(loaded[0], exported.token_type, *loaded[1:])


def _vocabularies(tokens, token_type: str, characters=None) -> attribution.Vocabularies:
    """Returns what can be written and heard; tokens that are no syllables are written as they are."""
    heard = frozenset(tokens.tokens)
    written = heard | frozenset(characters.tokens if characters else ())
    return attribution.Vocabularies(
        written if characters or token_type == "character" else None,
        heard if token_type in _SYLLABLES else None,
        token_type,
    )
