"""TaskSpec: what a model reads from the records and how its output is named, as plain data."""

from __future__ import annotations

import dataclasses

from tfrecord_builder.data import dataset_info


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """Description of one of the models that train.py trains."""

    name: str  # value of --model, section of config.json and scope of the variables
    unit: str  # what a length counts, "frames" or "tokens"
    features: tuple[str, str]  # keys of what the model reads and of its length
    labels: tuple[str, str]  # keys of the ids to learn and of their number
    batch_budget: str  # field of InputConfig that limits a batch, in `unit`
    error_rate: str  # tag of the decoded error rate, which chooses the best checkpoint
    class_variable: str  # the variable that has one place per class
    class_axis: int  # that axis of it
    vocabularies: dict[str, str]  # fields of ExperimentConfig that hold a sha256, and the file of each
    main_settings: tuple[str, ...]  # flags that TensorBoard's HParams table shows first; it has room for five

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
