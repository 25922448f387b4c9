"""Settings of a build: the corpus, the output directory, and how the work is divided."""

from __future__ import annotations

import dataclasses
from typing import Optional

from tfrecord_builder import errors
from tfrecord_builder.audio import frontend
from tfrecord_builder.augmentation import augmentation_config
from tfrecord_builder.building.engines import dispatch
from tfrecord_builder.corpora import registry
from tfrecord_builder.data import schema
from tfrecord_builder.labels import labelling
from tfrecord_builder.settings import config_flags


@dataclasses.dataclass(frozen=True)
class BuildConfig(config_flags.Checked):
    """Settings of a build. Features, labels and vocabularies have configs of their own."""

    corpus: str = config_flags.setting("manifest", "layout of the corpus", choices=sorted(registry.CORPORA))
    corpus_dir: tuple[str, ...] = config_flags.setting(
        (),
        "directory of the corpus, or for table and wenet a list file; several separated by commas",
        required=True,
    )
    output_dir: str = config_flags.setting(
        "", "directory to write to; new or empty, unless --overwrite", required=True
    )
    dev_fraction: float = config_flags.setting(
        0.0,
        "fraction of train to move to dev, by whole speakers, if the corpus has no dev split; 0: none",
        minimum=0,
        maximum=0.5,
    )
    max_seconds: float = config_flags.setting(30.0, "longer recordings are rejected", positive=True)
    max_rejected: float = config_flags.setting(
        0.05, "fraction of rejected utterances above which the build fails", minimum=0, maximum=1
    )
    fbank_dtype: str = config_flags.setting(
        "float16", "type of the stored features", choices=schema.FBANK_DTYPES
    )
    num_shards: int = config_flags.setting(16, "files per split; fewer if it has fewer utterances", minimum=1)
    num_workers: Optional[int] = config_flags.setting(None, "processes; one per core if empty", minimum=1)
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
    """Raises UserError for text with a flag of audio, or with tokens that do not pair with characters."""
    if config.corpus != "text":
        return
    changed = []
    for settings in (frontend_config, augmentation):
        usual = dataclasses.asdict(type(settings)())
        values = dataclasses.asdict(settings)
        changed += [f"--{name}={value}" for name, value in values.items() if value != usual[name]]
    if changed:
        raise errors.UserError(
            f"--corpus=text, {', '.join(changed)}: text has no audio features; leave {changed[0]} out."
        )
    if label_config.token_type not in labelling.PAIRED_TOKEN_TYPES:
        raise errors.UserError(
            f"--corpus=text, --token_type={label_config.token_type}: text pairs characters with syllables, "
            f"expected --token_type={' or '.join(labelling.PAIRED_TOKEN_TYPES)}; leave --token_type out."
        )
