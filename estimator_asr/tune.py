"""Finds the decoding settings with the fewest errors on dev, and saves them in the model directory.

    python -m estimator_asr.tune --acoustic_model_dir=AM [--language_model_dir=LM] [--ngram=tokens.arpa]
        --data_dir=DATA
    python -m estimator_asr.tune --language_model_dir=LM --ngram=characters.arpa --data_dir=TEXT
    python -m estimator_asr.tune --punctuation_model_dir=PM --acoustic_model_dir=AM [--language_model_dir=LM]
        --data_dir=DATA

For an acoustic model, tune chooses the weight of the n-gram model of tokens (an ARPA file, for example from
python -m estimator_asr.train_ngram) and the bonus per token. Next, it chooses the weights with which the
attention decoder, if there is one, and the language model rank the hypotheses, and calibrates the
confidences. If the acoustic model uses Whisper's encoder, the decoder from --whisper_decoder=WHISPER also
proposes and scores transcripts (docs/pretrained.md).
For a language model alone, tune chooses the weight of the n-gram model of characters (train_ngram
--unit=character).
For a punctuation model, tune chooses how much the pauses between characters count; the other models, which
are not changed, measure the pauses, and the transcripts of the data must have punctuation marks.
`evaluate` and `export` use the saved settings (decoding.json and ngram-HASH.npz); tuning again replaces them.
tuning.png shows the error rate after each step, and how many characters are wrong at each confidence.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Optional

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit(__name__)

import tensorflow as tf
from absl import logging

from estimator_asr.decoding.ngrams import arpa, back_off
from estimator_asr.evaluation import recognised_split
from estimator_asr.evaluation.tuning import calibration, pauses, picture, search, trials
from estimator_asr.experiment import back_off_arrays, decoding_files, model_directory, task_spec
from estimator_asr.exporting.saved_model import model_pairs, trained_model
from estimator_asr.inputs import splits
from estimator_asr.pretrained import decoder_weights
from estimator_asr.scoring import utterances
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, program
from tfrecord_builder.storage import files

_PICTURE = "tuning.png"
_TOKENS, _CHARACTERS = utterances.TOKEN_ERROR_RATE, utterances.CHARACTER_ERROR_RATE
_WEIGHTS = "ngram_weight token_bonus attention_weight language_weight whisper_weight whisper_language_weight"


@dataclasses.dataclass(frozen=True)
class TuneConfig(config_flags.Checked):
    """Flags of tune."""

    acoustic_model_dir: Optional[str] = config_flags.setting(
        None,
        "model directory of the acoustic model; if not set, the language model is tuned",
        checkpoints=True,
    )
    language_model_dir: Optional[str] = config_flags.setting(
        None,
        "model directory of the language model; with --acoustic_model_dir, the acoustic model is tuned for "
        "use with this language model",
        checkpoints=True,
    )
    punctuation_model_dir: Optional[str] = config_flags.setting(
        None,
        "model directory of the punctuation model to tune on speech that the other models recognise",
        checkpoints=True,
    )
    ngram: Optional[str] = config_flags.setting(
        None,
        "ARPA file (also .gz) with the n-gram model to use: tokens for an acoustic model, characters for a "
        "language model",
    )
    whisper_decoder: Optional[str] = config_flags.setting(
        None,
        "directory, including tokenizer.json, of the Whisper model whose encoder the acoustic model uses; "
        "its decoder then proposes and ranks transcripts; needs --language_model_dir",
        local=True,
    )
    data_dir: tuple[str, ...] = config_flags.setting((), "comma-separated data directories", required=True)
    split: str = config_flags.setting(
        "dev", "split to tune on; do not tune on the split whose results you report"
    )
    max_utterances: int = config_flags.setting(
        1000, "approximate number of utterances to tune on, chosen by their ids", positive=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.punctuation_model_dir and (not self.acoustic_model_dir or self.ngram or self.whisper_decoder):
            raise errors.UserError(
                "tune: --punctuation_model_dir needs --acoustic_model_dir (and --language_model_dir, if the "
                "transcripts come from a language model), without --ngram or --whisper_decoder"
            )
        if not (self.acoustic_model_dir or self.language_model_dir):
            raise errors.UserError(
                "tune: neither --acoustic_model_dir nor --language_model_dir is set; pass the directory of "
                "the model to tune"
            )
        if not (self.acoustic_model_dir or self.ngram):
            raise errors.UserError(
                "tune: --language_model_dir without --acoustic_model_dir needs --ngram, an ARPA file of "
                "characters; create such a file with python -m estimator_asr.train_ngram --unit=character"
            )
        if self.whisper_decoder and not (self.acoustic_model_dir and self.language_model_dir):
            raise errors.UserError(
                "tune: --whisper_decoder needs both --acoustic_model_dir and --language_model_dir, because "
                "the decoder outputs the language model's characters; pass both"
            )


def tune(config: TuneConfig) -> search.TuningResult:
    """Searches on the split, and saves the best settings and a picture in the model directory.

    Raises errors.UserError if the models, the data and the n-gram model are incompatible.
    """
    tuned, source = _open_tuned(config)
    with splits.explain_damage(config.data_dir, config.split):
        if config.acoustic_model_dir:
            result = _tune_acoustic(config, tuned, source)
        else:
            result = search.search_language(tuned, source, config.max_utterances)
    settings = result.steps[-1].settings
    decoding = decoding_files.Decoding(
        settings,
        tuned.model.ngram if settings.ngram_weight else None,
        result.whisper if settings.whisper_weight else None,
    )
    decoding_files.save(tuned.model.path, decoding)
    with files.writing(os.path.join(tuned.model.path, _PICTURE)) as temporary:
        picture.draw(result, temporary)
    return result


def _open_tuned(config: TuneConfig) -> tuple[trained_model.TrainedModel, splits.Split]:
    """Opens the model to tune, with the n-gram model from --ngram, and the split."""
    spec = task_spec.ACOUSTIC if config.acoustic_model_dir else task_spec.LANGUAGE
    path = config.acoustic_model_dir or config.language_model_dir
    trained = trained_model.open_trained_model(path, want=spec)
    _, source = recognised_split.open_split(trained.model, config.data_dir, config.split)
    ngram = config.ngram and read_ngram(config.ngram, trained.model)
    trained = trained._replace(model=dataclasses.replace(trained.model, ngram=ngram, whisper=None))
    return trained, source


def _open_language(config, acoustic) -> Optional[trained_model.TrainedModel]:
    if not config.language_model_dir:
        return None
    language = trained_model.open_trained_model(config.language_model_dir, want=task_spec.LANGUAGE)
    model_pairs.check(acoustic.model, language.model, "tune")
    return language


def _tune_acoustic(config, acoustic, source) -> search.TuningResult:
    language = _open_language(config, acoustic)
    whisper = _open_whisper(config, acoustic, language, source) if config.whisper_decoder else None
    posteriors = trials.compute_posteriors(acoustic, source, config.max_utterances)
    bench, model, measures = trials.Bench(acoustic, language, posteriors), acoustic.model, [_TOKENS]
    if language or model.config.token_type in ("character", "bpe"):
        measures.append(_CHARACTERS)
    has_decoder = model.config.acoustic.decoder_layers > 0
    result = search.Search(bench, tuple(measures), model.ngram is not None, has_decoder).run(whisper)
    return result._replace(whisper=whisper and whisper.acoustic.model.whisper)


def _open_whisper(config, acoustic, language, source) -> trials.WhisperBench:
    decoder = decoder_weights.compile_decoder(config.whisper_decoder, acoustic.model, language.model)
    acoustic = acoustic._replace(model=dataclasses.replace(acoustic.model, whisper=decoder))
    read = functools.partial(trials.read_batches, source, acoustic.model.config.input, config.max_utterances)
    return trials.WhisperBench(acoustic, language, read)


def read_ngram(path: str, model: model_directory.ModelDirectory) -> back_off_arrays.BackOffArrays:
    """Reads an n-gram model for a model's output vocabulary; logs which of its tokens the file lacks."""
    ngram_model, words = arpa.read(path), model.output_vocabulary.tokens
    warning = back_off.describe_missing(ngram_model, words, path)
    if warning:
        logging.warning("%s", warning)
    return back_off.compile_model(ngram_model, words, path)


def tune_pauses(config: TuneConfig) -> pauses.PauseTuning:
    """Chooses the weight of pauses, and saves it in the punctuation model's directory.

    Raises errors.UserError if the models and the data are incompatible.
    """
    acoustic = trained_model.open_trained_model(config.acoustic_model_dir, want=task_spec.ACOUSTIC)
    language = _open_language(config, acoustic)
    punctuation = trained_model.open_trained_model(config.punctuation_model_dir, want=task_spec.PUNCTUATION)
    others = acoustic.model, language and language.model
    model_pairs.check_punctuation(*others, punctuation.model, "tune")
    _, source = recognised_split.open_split(acoustic.model, config.data_dir, config.split)
    with splits.explain_damage(config.data_dir, config.split):
        result = pauses.choose(punctuation, acoustic, language, source, config.max_utterances)
    decoding_files.save(config.punctuation_model_dir, decoding_files.Decoding(result.settings))
    return result


def _print(result: search.TuningResult, config: TuneConfig) -> None:
    for step in result.steps:
        counts = ((name, count, result.num_labels[name]) for name, count in step.errors.items())
        wrong = (f"{count:,} of {size:,} {picture.LABELS[name]} wrong" for name, count, size in counts)
        print(f"{step.name}: {', '.join(wrong)}")
    best = result.steps[-1].settings
    if result.uncalibrated is not None:
        before = 100 * calibration.calibration_error(result.uncalibrated)
        after = 100 * calibration.calibration_error(result.fitted)
        print(
            f"confidence: calibration error {before:.1f} % -> {after:.1f} % (each half of the utterances "
            "calibrated on the other half)"
        )
    weights = ", ".join(f"{name} {getattr(best, name):g}" for name in _WEIGHTS.split() if getattr(best, name))
    path = config.acoustic_model_dir or config.language_model_dir
    print(
        f"best settings: {weights or 'all weights 0'}; saved in {path}, plotted in "
        f"{os.path.join(path, _PICTURE)}"
    )


def main(config: TuneConfig) -> None:
    tf.get_logger().setLevel("ERROR")
    if config.punctuation_model_dir:
        print(f"{tune_pauses(config)}; saved in {config.punctuation_model_dir}")
    else:
        _print(tune(config), config)


if __name__ == "__main__":
    program.run(main, TuneConfig)
