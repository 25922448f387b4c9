"""TaskSpec: plain data that describe a model's features, labels and outputs."""

from __future__ import annotations

import dataclasses

from tfrecord_builder.data import dataset_info


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """A description of one of the models that train.py can train."""

    name: str  # value of --model, section in config.json, and scope of the variables
    unit: str  # unit of lengths, "frames", "tokens" or "characters"
    features: tuple[str, str]  # keys of the model's input and its length
    labels: tuple[str, str]  # keys of the target ids and of how many there are
    batch_budget: str  # field of InputConfig that limits the size of a batch, in `unit`
    error_rate: str  # tag of the error rate after decoding, which selects the best checkpoint
    # A variable with one row or column per output class or, in the punctuation model, per input character.
    class_variable: str
    class_axis: int  # axis of class_variable that has one entry per class or character
    vocabularies: dict[str, str]  # {field of ExperimentConfig that contains the file's sha256: file}
    main_settings: tuple[str, ...]  # flags that TensorBoard's HParams table shows first; at most five

    @property
    def length_key(self) -> str:
        """Key of the length that is used to group utterances into batches."""
        return self.features[1]

    @property
    def reads_audio(self) -> bool:
        """True if the model reads audio features; False if it reads tokens or characters."""
        return "fbank" in self.features

    @property
    def writes_characters(self) -> bool:
        """True if the model outputs characters; False if it outputs tokens or marks."""
        return "character_ids" in self.labels

    @property
    def writes_marks(self) -> bool:
        """True if the model outputs punctuation marks."""
        return "mark_ids" in self.labels


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
PUNCTUATION = TaskSpec(
    name="punctuation",
    unit="characters",
    features=("character_ids", "num_characters"),
    labels=("mark_ids", "num_marks"),
    batch_budget="batch_tokens",
    error_rate="mark-error-rate",
    class_variable="punctuation/characters",
    class_axis=0,
    vocabularies={"characters_sha256": dataset_info.CHARACTERS_FILE},
    main_settings=("batch_tokens", "learning_rate", "train_epochs"),
)
SPECS = {spec.name: spec for spec in (ACOUSTIC, LANGUAGE, PUNCTUATION)}


def for_data(info: dataset_info.DatasetInfo) -> TaskSpec:
    """Returns the spec of the model that reads the data: audio, texts with marks, or tokens."""
    if info.has_marks:
        return PUNCTUATION
    return ACOUSTIC if info.frontend else LANGUAGE
