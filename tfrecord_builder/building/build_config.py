"""Settings of a build: the corpus, the output directory, and how the work is divided."""

from __future__ import annotations

import dataclasses
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.audio.augmentation import augmentation_config
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.corpora import registry
from tfrecord_builder.data import schema
from tfrecord_builder.labels import labelling
from tfrecord_builder.program import config_flags


@dataclasses.dataclass(frozen=True)
class BuildConfig(config_flags.Checked):
    """Settings of a build. Features, labels and vocabularies have their own configs."""

    corpus: str = config_flags.setting("manifest", "layout of the corpus", choices=sorted(registry.CORPORA))
    corpus_dir: tuple[str, ...] = config_flags.setting(
        (),
        "corpus directory (for table and wenet also a list file); separate several with commas",
        required=True,
    )
    output_dir: str = config_flags.setting(
        "", "directory to write to; must be new or empty unless --overwrite is set", required=True
    )
    dev_fraction: float = config_flags.setting(
        0.0,
        "if the corpus has no dev split, fraction of train to move to dev, whole speakers at a time",
        minimum=0,
        maximum=0.5,
    )
    max_seconds: float = config_flags.setting(30.0, "recordings longer than this are rejected", positive=True)
    max_rejected: float = config_flags.setting(
        0.05, "fraction of rejected utterances above which the build fails", minimum=0, maximum=1
    )
    fbank_dtype: str = config_flags.setting(
        "float16", "data type of the stored features", choices=schema.FBANK_DTYPES
    )
    num_shards: int = config_flags.setting(16, "shards per split, at most one per utterance", minimum=1)
    num_workers: Optional[int] = config_flags.setting(None, "workers; one per core if empty", minimum=1)
    runner: str = config_flags.setting(dispatch.LOCAL, dispatch.HELP)
    overwrite: bool = config_flags.setting(
        False, "replace the build in --output_dir, once the new one is complete"
    )


def check_text(
    config: BuildConfig,
    frontend_config: frontend.FrontendConfig,
    augmentation: augmentation_config.AugmentationConfig,
    label_config: labelling.LabelConfig,
) -> None:
    """Raises UserError if a text corpus is combined with audio flags or an unsuitable token type."""
    if config.corpus != "text":
        return
    changed = []
    for settings in (frontend_config, augmentation):
        defaults = dataclasses.asdict(type(settings)())
        values = dataclasses.asdict(settings)
        changed += [f"--{name}={value}" for name, value in values.items() if value != defaults[name]]
    if changed:
        raise errors.UserError(
            f"--corpus=text: a text corpus has no audio features; leave out {' and '.join(changed)}."
        )
    if label_config.token_type not in labelling.PAIRED_TOKEN_TYPES:
        raise errors.UserError(
            f"--token_type={label_config.token_type} does not support --corpus=text, in which each character "
            f"is paired with a syllable; use {' or '.join(labelling.PAIRED_TOKEN_TYPES)}."
        )
