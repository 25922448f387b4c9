"""A reference for the cascade: recognises one utterance at a time with one Estimator per model.

It shares only the tasks with the graph of the export: Estimator.predict returns the hypotheses of the
acoustic model and the characters of the language model, and NumPy ranks them.
"""

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_asr.experiment import estimator_api, model_directory
from estimator_asr.exporting.saved_model import model_pairs, trained_model
from estimator_asr.models.tasks import tasks
from tfrecord_builder.data import vocabulary


def recognise(
    acoustic: trained_model.TrainedModel,
    language: Optional[trained_model.TrainedModel],
    fbanks: Sequence[np.ndarray],
) -> list[dict]:
    """Returns the outputs of the cascade for features, float32 [num_frames, num_bins] each.

    The keys are those of cascade.transcribe, except confidence, characters and their times. If the language
    model's tokens differ from the acoustic model's (initials and finals), the outputs are empty.
    """
    features = ({"fbank": each[None], "num_frames": np.int32([len(each)])} for each in fbanks)
    found = [_list_hypotheses(acoustic.model, each) for each in _predict(acoustic, features, _n_best)]
    if language is None:
        written = [[_join(acoustic.model, tokens) for tokens, *_ in each] for each in found]
        return [_choose(each, [(text, 0.0) for text in texts], 0.0) for each, texts in zip(found, written)]
    if language.model.config.token_type != acoustic.model.config.token_type:
        return [{} for _ in found]
    sentences = [tokens for each in found for tokens, *_ in each]
    texts = iter(_write(language, sentences))
    weight = acoustic.model.decode.language_weight
    return [_choose(each, [next(texts) for _ in each], weight) for each in found]


def _predict(trained: trained_model.TrainedModel, features, describe) -> Iterator[Mapping[str, np.ndarray]]:
    """Yields Estimator.predict's outputs for features in batches of one."""
    task = tasks.for_model(trained.model)
    shapes = {name: [None, None] for name in task.spec.features}
    shapes[task.spec.length_key] = [None]
    if task.spec.reads_audio:
        shapes["fbank"] = [None, None, trained.model.config.frontend.num_bins]
    types = {name: tf.float32 if name == "fbank" else tf.int32 for name in shapes}

    def model_fn(features, labels, mode):
        return estimator_api.EstimatorSpec(mode, predictions=describe(task.recognise(features)))

    def input_fn():
        return tf.data.Dataset.from_generator(lambda: iter(features), types, shapes)

    with tempfile.TemporaryDirectory() as directory:
        predictor = estimator_api.Estimator(model_fn, directory)
        yield from predictor.predict(input_fn, checkpoint_path=trained.checkpoint)


def _n_best(found) -> dict[str, tf.Tensor]:
    return {name: getattr(found.n_best, name) for name in ("ids", "num_tokens", "scores", "acoustic_scores")}


def _list_hypotheses(model: model_directory.ModelDirectory, found: Mapping) -> list[tuple]:
    """Returns (tokens, score, acoustic score) of each hypothesis."""
    rows = zip(found["ids"], found["num_tokens"], found["scores"], found["acoustic_scores"])
    return [
        (tuple(model.tokens.tokens[token] for token in ids[:count]), float(score), float(acoustic))
        for ids, count, score, acoustic in rows
        if np.isfinite(score)
    ]


def _join(model: model_directory.ModelDirectory, tokens: Sequence[str]) -> str:
    return vocabulary.join_tokens(tokens, model.config.token_type)


def _write(
    language: trained_model.TrainedModel, sentences: Sequence[Sequence[str]]
) -> list[tuple[str, float]]:
    """Returns the text and score of each sentence of tokens; tokens that are not syllables are unchanged."""
    model = language.model
    features = (
        {"token_ids": np.int32([model.tokens.encode(each) or [0]]), "num_tokens": np.int32([len(each)])}
        for each in sentences
    )
    found = _predict(language, features, lambda each: {"ids": each.ids, "score": each.scores})
    return [
        (_spell(model, tokens, each["ids"]), float(each["score"])) for tokens, each in zip(sentences, found)
    ]


def _spell(model: model_directory.ModelDirectory, tokens: Sequence[str], ids: np.ndarray) -> str:
    characters = [
        _write_foreign(model, token) if _is_foreign(model, token) else model.characters.tokens[character]
        for token, character in zip(tokens, ids)
    ]
    return vocabulary.join_tokens(characters, "character")


def _write_foreign(model: model_directory.ModelDirectory, token: str) -> str:
    return token.lower() if model.config.token_type == "toneless" else token


def _is_foreign(model: model_directory.ModelDirectory, token: str) -> bool:
    pattern = model_pairs.SYLLABLES[model.config.token_type]
    return token not in model.tokens.tokens[1:] and not re.fullmatch(pattern, token)


def _choose(hypotheses: Sequence[tuple], written: Sequence[tuple[str, float]], weight: float) -> dict:
    """Ranks texts by the total probability of the hypotheses that become each text."""
    scores = [score + weight * added for (_, score, _), (_, added) in zip(hypotheses, written)]
    texts = [text for text, _ in written]
    totals = {text: np.logaddexp.reduce([s for s, t in zip(scores, texts) if t == text]) for text in texts}
    best = max(totals, key=totals.get)
    leader = max((i for i, text in enumerate(texts) if text == best), key=lambda i: scores[i])
    tokens, _, acoustic_score = hypotheses[leader]
    ranked = sorted(totals.items(), key=lambda each: -each[1])
    return {
        "transcript": best,
        "pinyin": " ".join(tokens),
        "acoustic_score": acoustic_score,
        "language_score": written[leader][1],
        "n_best": [{"transcript": text, "score": float(total)} for text, total in ranked],
    }
