"""Exports the trained models, the frontend and the vocabularies as one SavedModel.

    python -m estimator_asr.export --acoustic_model_dir=AM --language_model_dir=LM --data_dir=DATA \
        --export_dir=EXPORT

With --data_dir, the SavedModel is loaded again and must recognise utterances from the data as the models do;
otherwise nothing is exported. The export also contains a model card, files for TensorFlow Serving and, with
--format, models for machines without TensorFlow. Each export is a new version EXPORT/<number>/; older
versions are kept. The weights come from the best checkpoint on dev, or from the latest checkpoint if training
kept no best one.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Optional

from tfrecord_builder.program import lazy_tensorflow

lazy_tensorflow.load_or_exit(__name__)

import tensorflow as tf
from absl import logging

from estimator_asr.evaluation import recognised_split
from estimator_asr.experiment import task_spec
from estimator_asr.exporting import deployment, model_card, parity, sample
from estimator_asr.exporting.formats import bundle
from estimator_asr.exporting.saved_model import (
    export_info,
    model_pairs,
    saved_model_writer,
    statuses,
    trained_model,
)
from estimator_asr.inputs import splits
from tfrecord_builder import errors
from tfrecord_builder.program import config_flags, program, progress_bar

SAVED_MODEL = "saved_model"


@dataclasses.dataclass(frozen=True)
class ExportConfig(config_flags.Checked):
    """Flags of export."""

    acoustic_model_dir: str = config_flags.setting(
        "", "model directory of the acoustic model", required=True, checkpoints=True
    )
    language_model_dir: Optional[str] = config_flags.setting(
        None,
        "model directory of the language model; if not set, transcripts consist of tokens",
        checkpoints=True,
    )
    punctuation_model_dir: Optional[str] = config_flags.setting(
        None,
        "model directory of the punctuation model; if not set, transcripts have no marks",
        checkpoints=True,
    )
    export_dir: str = config_flags.setting(
        "", "export directory, in which the new version is created", required=True, checkpoints=True
    )
    decoding: Optional[str] = config_flags.setting(
        None, "decoding method of both models, beam or greedy; default: the setting of each model directory"
    )
    chunk_frames: Optional[int] = config_flags.setting(
        None, "frames per chunk of a streaming model, 16 to 64; default: as in training", positive=True
    )
    whisper_decoder: bool = config_flags.setting(
        True,
        "include Whisper's decoder if tune gave it a weight; makes the export larger and slower "
        "(docs/pretrained.md)",
    )

    format: tuple[str, ...] = config_flags.setting(
        (SAVED_MODEL,),
        "formats to write, separated by commas: saved_model, litert, onnx. The SavedModel is always written; "
        "litert and onnx are for machines without TensorFlow (docs/devices.md)",
    )
    weights: str = config_flags.setting(
        "float32",
        "type of the weights in litert and onnx: float32, float16 (half the size) or int8 (quantised, a "
        "quarter of the size)",
        choices=bundle.WEIGHTS,
    )
    data_dir: tuple[str, ...] = config_flags.setting(
        (), "comma-separated data directories, to check that the export recognises utterances like the models"
    )
    split: str = config_flags.setting("dev", "split of --data_dir to compare the export and the models on")
    parity_utterances: int = config_flags.setting(
        24, "maximum number of utterances to compare", positive=True
    )
    report_dir: tuple[str, ...] = config_flags.setting(
        (), "reports from evaluate, separated by commas, whose error rates the model card lists", local=True
    )
    licence: str = config_flags.setting("", "licence of the model, such as CC-BY-4.0, for the model card")

    @property
    def other_formats(self) -> list[str]:
        """The formats to write in addition to the SavedModel."""
        return [name for name in dict.fromkeys(self.format) if name != SAVED_MODEL]

    def __post_init__(self):
        super().__post_init__()
        self._check_formats()
        if os.path.exists(self.export_dir) and not os.path.isdir(self.export_dir):
            raise errors.UserError(f"export: --export_dir={self.export_dir} is a file; pass a directory")
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name in ("split", "parity_utterances"):
            if not self.data_dir and getattr(self, name) != defaults[name]:
                raise errors.UserError(
                    f"export: --{name}={getattr(self, name)} has no effect, because no utterances are "
                    "compared without --data_dir; pass --data_dir"
                )

    def _check_formats(self):
        known = (SAVED_MODEL, *bundle.CONVERTERS)
        unknown = [name for name in self.format if name not in known]
        if unknown:
            raise errors.UserError(
                f"export: --format contains {unknown[0]}, which is not one of {', '.join(known)}"
            )
        if self.weights != bundle.WEIGHTS[0] and not self.other_formats:
            raise errors.UserError(
                f"export: --weights={self.weights} has no effect on a SavedModel, which has float32 weights; "
                f"add {' or '.join(bundle.CONVERTERS)} to --format"
            )
        if self.other_formats and not self.data_dir:
            raise errors.UserError(
                f"export: --format={','.join(self.format)} needs --data_dir, because a format is written "
                "only if its model recognises utterances as the SavedModel does; pass --data_dir"
            )


def export(config: ExportConfig) -> str:
    """Writes the export; returns the path of the new version."""
    # Reports are read first, so that a bad report stops the export before anything is written.
    reports = {path: model_card.read_metrics(path) for path in config.report_dir}
    specs = [spec for spec in task_spec.SPECS.values() if getattr(config, f"{spec.name}_model_dir")]
    with progress_bar.ProgressBar(desc="export", total=1 + len(specs), unit="step") as progress:
        by_name = {spec.name: _open(config, spec, progress) for spec in specs}
        models = list(by_name.values())
        pair = acoustic, language = by_name["acoustic"], by_name.get("language")
        punctuation = by_name.get("punctuation")
        progress.clear()  # the log lines below must not be appended to the bar
        if language:
            model_pairs.check(acoustic.model, language.model, "export")
        if punctuation:
            others = (trained and trained.model for trained in pair)
            model_pairs.check_punctuation(*others, punctuation.model, "export")
        for trained in models:
            logging.info("%s model: %s", trained.model.config.spec.name, trained.checkpoint)
        data, utterances = _read_utterances(config, acoustic) if config.data_dir else ({}, [])
        bundle.check(config.other_formats, acoustic, utterances)

        def complete(path: str, info: export_info.ExportInfo) -> export_info.ExportInfo:
            model_card.check_reports(reports, path, [trained.checkpoint for trained in models])
            deployment.write(path, info.frontend.sample_rate)
            agreement = "Not compared with the trained models, because --data_dir was not set."
            if utterances:
                certificate = parity.certify(path, *pair, utterances, punctuation)
                certificate.data = f"{','.join(data)}, {config.split}"
                info = dataclasses.replace(info, parity=dataclasses.asdict(certificate))
                agreement = str(certificate)
            formats = bundle.add(
                path, config.other_formats, config.weights, *pair, info, utterances, punctuation
            )
            model_card.write(path, info, data, list(reports.values()), config.licence, agreement)
            logging.info("%s", agreement)
            return dataclasses.replace(
                info, formats={name: dataclasses.asdict(compared) for name, compared in formats.items()}
            )

        path = saved_model_writer.write(*pair, config.export_dir, complete, punctuation)
        progress.update()
    return path


def _open(
    config: ExportConfig, want: task_spec.TaskSpec, progress: progress_bar.ProgressBar
) -> trained_model.TrainedModel:
    path = getattr(config, f"{want.name}_model_dir")
    trained = trained_model.open_trained_model(path, config.decoding, want)
    progress.update()
    decoding = trained.model.decode.decoding
    if trained.model.config.acoustic.chunk_frames and decoding != "beam":
        logging.warning(
            "export: decoding is %s, but streams need beam search, so the export will not support streams",
            decoding,
        )
    if config.chunk_frames is not None and want == task_spec.ACOUSTIC:
        trained = trained.with_chunks(config.chunk_frames)
    if config.whisper_decoder and config.language_model_dir and decoding == "beam":
        return trained
    # If Whisper's decoder is not used, language_weight applies instead of whisper_language_weight.
    decode = dataclasses.replace(trained.model.decode, whisper_weight=0.0)
    return trained._replace(model=dataclasses.replace(trained.model, decode=decode, whisper=None))


def _read_utterances(
    config: ExportConfig, acoustic: trained_model.TrainedModel
) -> tuple[recognised_split.Data, list[sample.ParityUtterance]]:
    """Returns the DatasetInfo of each data directory, and the utterances that the comparison uses."""
    settings = acoustic.model.config
    data, source = recognised_split.open_split(acoustic.model, config.data_dir, config.split)
    seconds = statuses.find_max_seconds(settings.frontend)
    with splits.explain_damage(config.data_dir, config.split):
        utterances = sample.read(source, settings.input, config.parity_utterances, settings.frontend, seconds)
    if all(utterance.waveform is None for utterance in utterances):
        message = "the recordings of split %s are missing, so recognition of WAV files is not compared"
        logging.warning(message, config.split)
    return data, utterances


def main(config: ExportConfig) -> None:
    logging.set_verbosity(logging.INFO)
    tf.get_logger().setLevel("ERROR")
    print(export(config))


if __name__ == "__main__":
    program.run(main, ExportConfig)
