"""Recognises a split with a model directory or an export, and scores each utterance."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import numpy as np

from estimator_asr.evaluation import chunkwise
from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import model_directory, task_spec
from estimator_asr.exporting.saved_model import export_info, recogniser, stream_client, trained_model
from estimator_asr.inputs import input_fn, splits
from estimator_asr.scoring import attribution, punctuation_scores, utterances
from tfrecord_builder import errors
from tfrecord_builder.data import dataset_info, marks, vocabulary
from tfrecord_builder.program import config_json, progress_bar

# Maps a measure to (record feature used as the reference, recogniser output used as the hypothesis).
_TOKENS = {utterances.TOKEN_ERROR_RATE: ("pronunciation", "pinyin")}
_CHARACTERS = {utterances.CHARACTER_ERROR_RATE: ("transcript", "transcript")}
_SYLLABLES = ("syllable", "toneless")  # token types whose tokens are whole syllables

Data = Mapping[str, dataset_info.DatasetInfo]  # maps each data directory to its dataset_info


class EvaluatedModel(NamedTuple):
    """A model to evaluate: a model directory or an export."""

    recogniser: recogniser.Recogniser | chunkwise.ChunkwiseRecogniser
    spec: task_spec.TaskSpec  # the task, which determines whether the model reads audio
    input: config_lib.InputConfig  # batch settings
    measures: Mapping[str, tuple[str, str]]  # the record feature and the output that each measure compares
    facts: Mapping[str, object]  # facts about the model for the report: strings or numbers
    vocabularies: attribution.KnownVocabularies
    # The export's language model, which reads pinyin; it shares the session of `recogniser`.
    language: Optional[recogniser.Recogniser] = None
    hotwords: Sequence[str] = ()  # hotwords that the recogniser uses
    form: Optional[object] = None  # see recogniser.LoadedVersion.form; None if transcripts have no marks


class RecognisedSplit(NamedTuple):
    """A recognised split, sorted by utterance id; see scored_split.ScoredSplit for the fields."""

    measures: dict[str, list[utterances.ScoredUtterance]]
    outputs: list[dict]
    pronunciations: dict[str, str]  # reference pronunciation by utterance id; empty if the model reads audio
    on_reference_pinyin: list[utterances.ScoredUtterance]
    marked: list[punctuation_scores.MarkedText]  # texts with the marks that a punctuation model finds
    written_forms: list[utterances.ScoredUtterance]  # the texts in `marked`, scored without marks


def open_split(
    model: model_directory.ModelDirectory, data_dirs: Sequence[str], split: str
) -> tuple[Data, splits.Split]:
    """Opens a split for a model; raises errors.UserError if the split is missing or the data do not fit."""
    infos = dataset_info.load_all(data_dirs)
    data = dict(zip(data_dirs, infos))
    _check_data(model, data)
    return data, splits.read_split(infos, data_dirs, split, model.config.spec)


def open_model(
    path: str, decoding: Optional[str], data: Data, chunk_frames: Optional[int] = None
) -> EvaluatedModel:
    """Opens a model directory with its best checkpoint.

    Args:
        path: the model directory.
        decoding: "beam" or "greedy"; if None, the model directory's setting is used.
        data: dataset_info of each data directory.
        chunk_frames: frames per chunk if recordings are read chunk by chunk, or 0 for as many as in training.
            If None, the model reads each recording as a whole.

    Raises errors.UserError if there is no checkpoint, the data have a different vocabulary or frontend, or
    chunk_frames is set but the model does not stream.
    """
    trained = trained_model.open_trained_model(path, decoding)
    if chunk_frames is not None:
        trained = trained.with_chunks(chunk_frames)
    model, spec = trained.model, trained.model.config.spec
    token_type = "character" if spec.writes_characters else model.config.token_type
    _check_data(model, data)
    if chunk_frames is None:
        subject, facts = trained_model.build_recogniser(trained), {}
    else:
        whole, streams = trained_model.build_streams(trained)
        frames = model.config.acoustic.chunk_frames
        facts = {"chunk_frames": frames}
        subject = chunkwise.ChunkwiseRecogniser(whole, streams, frames, model.config.frontend)
    return EvaluatedModel(
        subject,
        spec,
        model.config.input,
        {} if spec.writes_marks else _measures(not spec.writes_characters, token_type),
        {"model": path, "checkpoint": trained.checkpoint, "global_step": trained.global_step, **facts},
        _vocabularies(model.config.token_type, model.tokens, model.characters),
    )


def open_version(
    version_dir: str, hotwords: Sequence[str], data: Data, is_streaming: bool = False
) -> EvaluatedModel:
    """Loads a version of an export; if is_streaming is True, the model reads recordings chunk by chunk.

    Raises errors.UserError if the export is damaged or does not stream, or the data have a different
    vocabulary or frontend.
    """
    exported, assets = export_info.load(version_dir), os.path.join(version_dir, "assets")
    for data_dir, info in data.items():
        pairs = {
            "sha256 of tokens.txt": (info.tokens_sha256[:12], exported.acoustic.tokens_sha256[:12]),
            "frontend": (info.frontend, exported.frontend),
        }
        model_directory.refuse_difference(data_dir, version_dir, pairs, assets, exported)
    loaded = recogniser.load_version(version_dir)
    subject, facts = loaded.find("features", hotwords), {"hotwords": len(hotwords)} if hotwords else {}
    if is_streaming:
        facts = {"chunk_frames": exported.chunk_frames}
        subject = _open_chunkwise(loaded, subject)
    has_language = exported.language is not None
    files = [dataset_info.TOKENS_FILE, *([dataset_info.CHARACTERS_FILE] if has_language else [])]
    vocabularies = [vocabulary.Vocabulary.load(os.path.join(assets, name)) for name in files]
    return EvaluatedModel(
        subject,
        task_spec.ACOUSTIC,
        config_json.from_json_dict(config_lib.InputConfig, exported.input),
        _measures(True, "character" if has_language else exported.token_type),
        {"model": version_dir, "global_step": exported.acoustic.global_step, **facts},
        _vocabularies(exported.token_type, *vocabularies),
        loaded.find("language") if has_language else None,
        hotwords,
        None if is_streaming else loaded.form,
    )


def _open_chunkwise(
    loaded: recogniser.LoadedVersion, whole: recogniser.Recogniser
) -> chunkwise.ChunkwiseRecogniser:
    streams = stream_client.find(loaded, "stream_features")
    if streams is None:
        raise errors.UserError(
            f"{loaded.version_dir}: the model does not stream; omit --streaming, or export a model that was "
            "trained with --chunk_frames and uses beam search"
        )
    return chunkwise.ChunkwiseRecogniser(whole, streams, loaded.info.chunk_frames, loaded.info.frontend)


def _check_data(model: model_directory.ModelDirectory, data: Data) -> None:
    for data_dir, info in data.items():
        model_directory.check_data(model.path, model.config, info, data_dir)


def _measures(has_tokens: bool, token_type: str) -> dict[str, tuple[str, str]]:
    """Returns a model's measures: tokens if has_tokens is True, and characters if transcripts contain them.

    Transcripts contain characters if token_type, the type of their units, is character or bpe.
    """
    return {**(_TOKENS if has_tokens else {}), **(_CHARACTERS if token_type in ("character", "bpe") else {})}


def _vocabularies(token_type: str, tokens, characters=None) -> attribution.KnownVocabularies:
    """Returns the characters that the model can output and the syllables that it can recognise."""
    token_set = frozenset(tokens.tokens)
    # Tokens that are not syllables are copied to transcripts.
    output_set = token_set | frozenset(characters.tokens if characters else ())
    return attribution.KnownVocabularies(
        output_set if characters or token_type == "character" else None,
        token_set if token_type in _SYLLABLES else None,
        token_type,
    )


def recognise(subject: EvaluatedModel, source: splits.Split) -> RecognisedSplit:
    """Recognises and scores the split; shows a progress bar."""
    scored = RecognisedSplit({measure: [] for measure in subject.measures}, [], {}, [], [], [])
    source = dataclasses.replace(source, has_marks=source.has_marks or bool(subject.form))
    read = input_fn.build_input_fn(source, subject.input, training=False)
    progress = progress_bar.ProgressBar(total=source.num_utterances, unit=" utterances", desc="evaluate")
    with progress:
        for batch, _ in input_fn.read_elements(read):
            _add(scored, subject, batch)
            progress.update(len(batch["utterance_id"]))
    for rows in (*scored.measures.values(), scored.on_reference_pinyin, scored.marked, scored.written_forms):
        rows.sort(key=lambda row: row.utterance_id)
    scored.outputs.sort(key=lambda row: row["utterance_id"])
    return scored


def _add(scored: RecognisedSplit, subject: EvaluatedModel, batch: Mapping[str, np.ndarray]) -> None:
    for record, outputs in recogniser.recognise_batches(subject.recogniser, [batch]):
        for measure, (reference, hypothesis) in subject.measures.items():
            scored.measures[measure].append(_score(measure, record, reference, outputs[hypothesis]))
        if subject.spec.writes_marks:
            scored.marked.append(_mark(record, outputs["mark_ids"]))
        if subject.form and record["written"]:
            outputs = add_written(outputs, subject.form)
            text, written_form = compare_written(record, outputs)
            scored.marked.append(text)
            scored.written_forms.append(written_form)
        utterance_id, pronunciation = _decode(record, "utterance_id", "pronunciation")
        scored.outputs.append({"utterance_id": utterance_id, **outputs})
        if not subject.spec.reads_audio:
            scored.pronunciations[utterance_id] = pronunciation
    if subject.language is not None:
        measure, (reference, _) = list(subject.measures.items())[-1]
        with_pinyin = {**batch, "pinyin": np.array(batch["pronunciation"], object)}
        for record, outputs in recogniser.recognise_batches(subject.language, [with_pinyin]):
            scored.on_reference_pinyin.append(_score(measure, record, reference, outputs["transcript"]))


def add_written(outputs: Mapping, form) -> dict:
    """Returns a recogniser's outputs for an utterance; adds `written` (see LoadedVersion.form) if missing."""
    return {"written": form.write(outputs["punctuated"]), **outputs}


def compare_written(
    record: Mapping, outputs: Mapping
) -> tuple[punctuation_scores.MarkedText, utterances.ScoredUtterance]:
    """Returns the texts with marks, and the scored characters of the written form without marks.

    Args:
        record: `written` is the reference with marks; marks of any kind are converted to the model's marks.
        outputs: `punctuated` is the transcript with marks, and `written` also has numbers in digits.
    """
    *about, text = _decode(record, "utterance_id", "speaker", "written")
    reference = marks.unify(text)
    sides = ("".join(marks.split(text)[0]) for text in (reference, outputs["written"]))
    scored = utterances.score(utterances.CHARACTER_ERROR_RATE, *about, *sides)
    return punctuation_scores.MarkedText(*about, reference, outputs["punctuated"]), scored


def _mark(record: Mapping, found: str) -> punctuation_scores.MarkedText:
    """Returns a text with its own marks and with the marks found; each digit in `found` is a mark id."""
    *about, text = _decode(record, "utterance_id", "speaker", "transcript")
    ids = record["mark_ids"].tolist(), list(map(int, found))
    return punctuation_scores.MarkedText(*about, *(marks.join(text, row) for row in ids))


def _score(measure: str, record: Mapping, reference: str, hypothesis: str) -> utterances.ScoredUtterance:
    return utterances.score(measure, *_decode(record, "utterance_id", "speaker", reference), hypothesis)


def _decode(record: Mapping, *names: str) -> list[str]:
    return [record[name].decode("utf-8") for name in names]
