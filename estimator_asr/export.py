"""Exports the trained models, the frontend and the vocabularies as one SavedModel.

    python -m estimator_asr.export --acoustic_model_dir=AM --language_model_dir=LM --data_dir=DATA \
        --export_dir=EXPORT

With --data_dir the SavedModel is loaded again and must recognise utterances of the data as the models do, or
nothing is exported. Beside the graph it has a model card, parity.json and files for TensorFlow Serving.
Each export is a new version EXPORT/<number>/; older ones stay. The weights are those of the best checkpoint
on dev, or of the latest one if training kept no best.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import Optional

from tfrecord_builder.runtime import lazy_tensorflow

lazy_tensorflow.load_or_exit()

import tensorflow as tf
import tqdm
from absl import logging

from estimator_asr.experiment import task_spec
from estimator_asr.exporting import completion, model_card
from estimator_asr.saved_model import model_pairs, saved_model_writer, trained_model
from tfrecord_builder import errors
from tfrecord_builder.settings import config_flags, program


@dataclasses.dataclass(frozen=True)
class ExportConfig(config_flags.Checked):
    """Flags of export."""

    acoustic_model_dir: str = config_flags.setting(
        "", "model directory of the acoustic model", required=True, local=True
    )
    language_model_dir: Optional[str] = config_flags.setting(
        None, "model directory of the language model; without it transcripts are tokens", local=True
    )
    export_dir: str = config_flags.setting(
        "", "directory in which the version is written", required=True, local=True
    )
    decoding: Optional[str] = config_flags.setting(
        None, "beam (search) or greedy, in both models; default: what each directory has"
    )

    data_dir: tuple[str, ...] = config_flags.setting(
        (),
        "data directories, comma separated; the SavedModel must recognise their utterances as the models do",
    )
    split: str = config_flags.setting("dev", "split of these utterances")
    parity_utterances: int = config_flags.setting(24, "how many of them, at most", positive=True)
    report_dir: tuple[str, ...] = config_flags.setting(
        (), "reports of evaluate, comma separated, whose error rates the model card has", local=True
    )
    licence: str = config_flags.setting("", "licence of the model, for the model card, as CC-BY-4.0")

    def __post_init__(self):
        super().__post_init__()
        if os.path.exists(self.export_dir) and not os.path.isdir(self.export_dir):
            raise errors.UserError(f"export: --export_dir={self.export_dir} is a file; give a directory")
        self._refuse_flags_without_data()

    def _refuse_flags_without_data(self) -> None:
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name in ("split", "parity_utterances"):
            if not self.data_dir and getattr(self, name) != defaults[name]:
                raise errors.UserError(
                    f"export: --{name}={getattr(self, name)} is given without --data_dir, expected both; "
                    "give --data_dir, whose utterances are compared"
                )


def export(config: ExportConfig) -> str:
    """Writes the SavedModel; returns the path of the version."""
    num_models = 1 if config.language_model_dir is None else 2
    # Before anything is written.
    reports = {path: model_card.read_metrics(path) for path in config.report_dir}
    with tqdm.tqdm(desc="export", total=num_models + 1, unit="step", disable=None) as progress:
        acoustic = _open(config, task_spec.ACOUSTIC, progress)
        language = _open(config, task_spec.LANGUAGE, progress) if num_models == 2 else None
        progress.clear()  # makes room for the lines that follow
        if language is not None:
            model_pairs.check(acoustic.model, language.model, "export")
        for trained in filter(None, (acoustic, language)):
            logging.info("%s model: %s", trained.model.config.spec.name, trained.checkpoint)
        sampled = completion.open_data(acoustic, config.data_dir, config.split, config.parity_utterances)
        complete = functools.partial(completion.complete, sampled, reports, config.licence)
        path = saved_model_writer.write(acoustic, language, config.export_dir, complete)
        progress.update()
    return path


def _open(config: ExportConfig, want: task_spec.TaskSpec, progress: tqdm.tqdm) -> trained_model.TrainedModel:
    path = getattr(config, f"{want.name}_model_dir")
    trained = trained_model.open_trained_model(path, config.decoding)
    trained.check_spec(want)
    progress.update()
    return trained


def main(config: ExportConfig) -> None:
    logging.set_verbosity(logging.INFO)
    tf.get_logger().setLevel("ERROR")
    print(export(config))


if __name__ == "__main__":
    program.run(main, ExportConfig)
