"""TaskSpec: what a model reads from the records and how its output is named, as plain data.

tasks/ adds the graph. Inputs, configuration and checkpoints need this description alone.
"""

from __future__ import annotations

import dataclasses

from tfrecord_builder import dataset_info


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """Description of one of the models that train.py trains.

    Attributes:
        name: value of --model, section of config.json and scope of the variables.
        unit: what a length counts, "frames" or "tokens".
        features: keys of what the model reads and of its length.
        labels: keys of the ids to learn and of their number.
        batch_budget: field of InputConfig that limits a batch, in `unit`.
        error_rate: tag of the decoded error rate, which chooses the best checkpoint.
        class_variable, class_axis: the variable that has one place per class, and that axis.
        vocabularies: fields of ExperimentConfig that hold a sha256, and the file that each belongs to.
        main_settings: flags that TensorBoard's HParams table shows first (it has room for five).
    """

    name: str
    unit: str
    features: tuple[str, str]
    labels: tuple[str, str]
    batch_budget: str
    error_rate: str
    class_variable: str
    class_axis: int
    vocabularies: dict[str, str]
    main_settings: tuple[str, ...]

    @property
    def length_key(self) -> str:
        """Key of the length that batches are made by."""
        return self.features[1]

    @property
    def reads_audio(self) -> bool:
        """Whether it reads audio features; otherwise it reads tokens."""
        return "fbank" in self.features

    @property
    def writes_characters(self) -> bool:
        """Whether its output are characters; otherwise they are tokens."""
        return "characters_sha256" in self.vocabularies


ACOUSTIC = TaskSpec(
    name="acoustic",
    unit="frames",
    features=("fbank", "num_frames"),
    labels=("token_ids", "num_tokens"),
    batch_budget="batch_frames",
    error_rate="token-error-rate",
    class_variable="acoustic/ctc/bias",
    class_axis=-1,
    vocabularies={"tokens_sha256": dataset_info.TOKENS_FILE},
    main_settings=("batch_frames", "encoder", "encoder_layers", "encoder_units", "learning_rate"),
)
LANGUAGE = TaskSpec(
    name="language",
    unit="tokens",
    features=("token_ids", "num_tokens"),
    labels=("character_ids", "num_characters"),
    batch_budget="batch_tokens",
    error_rate="character-error-rate",
    class_variable="language/characters",
    class_axis=0,
    vocabularies={
        "tokens_sha256": dataset_info.TOKENS_FILE,
        "characters_sha256": dataset_info.CHARACTERS_FILE,
        "readings_sha256": dataset_info.READINGS_FILE,
    },
    main_settings=("batch_tokens", "language_layers", "language_units", "learning_rate", "train_epochs"),
)
SPECS = {spec.name: spec for spec in (ACOUSTIC, LANGUAGE)}


def for_data(has_audio: bool) -> TaskSpec:
    """Returns the model that is usually trained on audio features, or on text."""
    return next(spec for spec in SPECS.values() if spec.reads_audio == has_audio)
