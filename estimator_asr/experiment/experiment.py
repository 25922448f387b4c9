"""config.json: all settings of a model, and the facts about its data that evaluation and export need."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Optional

from estimator_asr.experiment import config as config_lib
from estimator_asr.experiment import task_spec
from tfrecord_builder import errors
from tfrecord_builder.audio import frontend as frontend_lib
from tfrecord_builder.data import dataset_info
from tfrecord_builder.program import config_flags, config_json
from tfrecord_builder.storage import files

CONFIG_FILE = "config.json"
FORMAT_VERSION = 2
DEFAULT_SUBSAMPLING = 4  # input frames per output frame, for encoders that are not pretrained


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentConfig(config_lib.Settings):
    """Contents of config.json."""

    model: str
    frontend: Optional[frontend_lib.FrontendConfig]  # None if the model reads tokens
    token_type: str
    tokens_sha256: str
    characters_sha256: str
    readings_sha256: str
    format_version: int = FORMAT_VERSION
    bpe_sha256: str = ""  # hash of bpe.model; empty for token types without subwords
    # All token ids, from most to least frequent in the training data; empty with --softmax=full.
    tokens_by_frequency: tuple[int, ...] = ()
    subsampling: int = DEFAULT_SUBSAMPLING  # input frames per output frame of the acoustic encoder

    @property
    def spec(self) -> task_spec.TaskSpec:
        return task_spec.SPECS[self.model]

    @property
    def output_seconds(self) -> float:
        """Frame shift of the acoustic encoder's output, in seconds."""
        return self.subsampling * self.frontend.frame_seconds

    @classmethod
    def for_data(cls, info: dataset_info.DatasetInfo, **sections: config_flags.Checked) -> ExperimentConfig:
        """Returns the settings combined with a description of the training data.

        `sections` are fields of config.Settings; missing sections get their default values.
        """
        settings = config_lib.Settings(**sections)
        spec = task_spec.SPECS[settings.train.model]
        return cls(
            model=spec.name,
            frontend=info.frontend if spec.reads_audio else None,
            token_type=info.token_type,
            tokens_sha256=info.tokens_sha256,
            characters_sha256=info.characters_sha256,
            readings_sha256=info.readings_sha256,
            bpe_sha256=info.bpe_sha256,
            **vars(settings),
        )

    def save(self, model_dir: str) -> None:
        """Writes config.json to `model_dir` atomically."""
        files.write_text(os.path.join(model_dir, CONFIG_FILE), self.to_json(indent=2) + "\n")

    def to_json(self, indent: Optional[int] = None) -> str:
        """Returns the config as JSON with sorted keys; the JSON is on one line if `indent` is None."""
        return json.dumps(config_json.to_json_dict(self), indent=indent, sort_keys=True, ensure_ascii=False)

    @classmethod
    def load(cls, model_dir: str) -> ExperimentConfig:
        """Reads config.json; raises errors.UserError if it is missing or damaged, or has another version."""
        path = os.path.join(model_dir, CONFIG_FILE)
        try:
            values = config_json.parse(files.read_text(path))
        except FileNotFoundError:
            raise errors.UserError(
                f"{model_dir}: {CONFIG_FILE} is missing, so this is not a model directory; make one with "
                "python -m estimator_asr.train --model_dir=DIR"
            ) from None
        except (OSError, ValueError) as error:
            raise errors.UserError(f"{path}: cannot be read ({error}); restore it from a copy") from error
        if not isinstance(values, dict) or values.get("format_version") != FORMAT_VERSION:
            raise errors.UserError(
                f"{path} does not have format version {FORMAT_VERSION}; train a new model in another "
                "directory with this program"
            )
        try:
            return config_json.from_json_dict(cls, values)
        except errors.UserError as error:
            raise errors.UserError(f"{path}: {error}") from error
