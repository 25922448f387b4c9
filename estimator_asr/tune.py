"""Finds on dev how the models are decoded together, and keeps it in the acoustic model's directory.

    python -m estimator_asr.tune --acoustic_model_dir=AM [--language_model_dir=LM] [--ngram=tokens.arpa]
        --data_dir=DATA

Finds the weight of the n-gram model of tokens (of python -m estimator_asr.train_ngram, or any ARPA file) and
the bonus of each token, then the weights with which the attention decoder, if the model has one, and the
language model choose among the hypotheses, and fits the confidences to how often they are right. `evaluate`
and `export` use what was found (AM/decoding.json and AM/ngram-HASH.npz); tuning again replaces it.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Optional

from tfrecord_builder import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf
from absl import logging

from estimator_asr import decoding_files, model_directory, task_spec
from estimator_asr.inputs import splits
from estimator_asr.ngrams import arpa_reader, back_off
from estimator_asr.scoring import utterances
from estimator_asr.serving import model_pairs, trained_model
from estimator_asr.tuning import calibration, posteriors, search, trials
from tfrecord_builder import config_flags, dataset_info, program


@dataclasses.dataclass(frozen=True)
class TuneConfig(config_flags.Checked):
    """Flags of tune."""

    acoustic_model_dir: str = config_flags.setting("", "model directory of the acoustic model", required=True)
    language_model_dir: Optional[str] = config_flags.setting(
        None, "model directory of the language model that it will be exported with"
    )
    ngram: Optional[str] = config_flags.setting(None, "n-gram model of the tokens: an ARPA file, also .gz")
    data_dir: tuple[str, ...] = config_flags.setting((), "data directories, comma separated", required=True)
    split: str = config_flags.setting("dev", "split to tune on; not the one to report")
    max_utterances: int = config_flags.setting(
        1000, "utterances to tune on, about: chosen by their ids if the split has more", positive=True
    )


def tune(config: TuneConfig) -> search.Found:
    """Searches on the split and saves what was found.

    Raises:
        errors.UserError: a model, the data or the n-gram model cannot be used together.
    """
    acoustic = _open(config.acoustic_model_dir, task_spec.ACOUSTIC)
    language = config.language_model_dir and _open(config.language_model_dir, task_spec.LANGUAGE)
    if language:
        model_pairs.check(acoustic.model, language.model, "tune")
    infos = dataset_info.load_all(config.data_dir)
    for info, path in zip(infos, config.data_dir):
        model_directory.check_data(acoustic.model.path, acoustic.model.config, info, path)
    source = splits.read_split(infos, config.data_dir, config.split, task_spec.ACOUSTIC)
    model = dataclasses.replace(
        acoustic.model, ngram=config.ngram and read_ngram(config.ngram, acoustic.model)
    )
    acoustic = acoustic._replace(model=model)
    with splits.explain_damage(config.data_dir, config.split):
        batches = posteriors.compute(acoustic, source, config.max_utterances)
    bench = trials.Bench(acoustic, language or None, batches)
    has_decoder = model.config.acoustic.decoder_layers > 0
    found = search.Search(bench, _measures(model, language), model.ngram is not None, has_decoder).run()
    decoding_files.save(model.path, found.steps[-1].settings, model.ngram)
    return found


def _open(path: str, want: task_spec.TaskSpec) -> trained_model.TrainedModel:
    trained = trained_model.open_trained_model(path)
    trained.check_spec(want)
    return trained


def read_ngram(path: str, model: model_directory.ModelDirectory) -> types.SimpleNamespace:
    """Returns an n-gram model for the tokens of a model, as ModelDirectory has it; logs which it lacks."""
    ngram_model = arpa_reader.read(path)
    warning = back_off.describe_missing(ngram_model, model.tokens.tokens, path)
    if warning:
        logging.warning("%s", warning)
    arrays = back_off.compile_model(ngram_model, model.tokens.tokens, path)
    return types.SimpleNamespace(**arrays._asdict())


def _measures(model, language) -> tuple[str, ...]:
    writes_characters = language or model.config.token_type in ("character", "bpe")
    return (utterances.TOKEN_ERROR_RATE, *((utterances.CHARACTER_ERROR_RATE,) if writes_characters else ()))


def _print(found: search.Found, config: TuneConfig) -> None:
    names = {utterances.TOKEN_ERROR_RATE: "tokens", utterances.CHARACTER_ERROR_RATE: "characters"}
    for step in found.steps:
        wrong = ", ".join(f"{step.errors[measure]} wrong {names[measure]}" for measure in step.errors)
        print(f"{step.name}: {wrong}")
    best = found.steps[-1].settings
    fitted = calibration.apply(found.judged, best.confidence_scale, best.confidence_offset)
    before, after = (100 * calibration.calibration_error(each) for each in (found.judged, fitted))
    print(f"confidence: calibration error {before:.1f} % -> {after:.1f} %")
    weights = ("ngram_weight", "token_bonus", "attention_weight", "language_weight")
    chosen = ", ".join(f"{name} {getattr(best, name):g}" for name in weights)
    print(f"{chosen}: saved in {config.acoustic_model_dir}")


def main(config: TuneConfig) -> None:
    tf.get_logger().setLevel("ERROR")
    _print(tune(config), config)


if __name__ == "__main__":
    program.run(main, TuneConfig)
