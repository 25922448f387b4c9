"""Builds have the same bytes under each TensorFlow release.

Their features are float16: those of float32 differ in the last bit between CPUs of other instruction sets.
"""

from __future__ import annotations

import pytest
import small_augmentation
import small_corpora

from tfrecord_builder.audio import frontend
from tfrecord_builder.audio.augmentation import augmentation_config
from tfrecord_builder.building import builder

# First digits of the SHA-256 of train and dev, made with TensorFlow 2.15.1.
HASHES = {
    "log_mel": ("b8856cd6d5bb8844", "cbb0a4157355b245"),
    "log_spectrogram": ("4249af9aa3e7ca51", "542c61ebeb17d9bf"),
    "speed": ("a62c47b0902529a5", "cbb0a4157355b245"),
    "reverberation": ("2d776d14318ed515", "cbb0a4157355b245"),
    "noise": ("5f9afed9cd12830a", "cbb0a4157355b245"),
    "volume": ("0c9566a92e111a23", "cbb0a4157355b245"),
    "all effects": ("f2aae9fcfa55655a", "cbb0a4157355b245"),
    "text": ("89f95991ab263950", "dd64a3e8f13d7b8a"),
}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Recordings and sentences, and the settings of each kind of build."""
    path = tmp_path_factory.mktemp("corpora")
    folders = small_augmentation.make_folders(path)
    recordings = small_corpora.make_manifest_corpus(path / "recordings", num_train=3, num_dev=1)
    sentences = small_corpora.make_text_corpus(path / "sentences")
    usual = frontend.FrontendConfig()
    config = augmentation_config.AugmentationConfig
    all_effects = config(**folders, augmented_copies=2, volume_db=6.0)
    return {
        "log_mel": (recordings, {}, usual, builder.PLAIN),
        "log_spectrogram": (
            recordings,
            {},
            frontend.FrontendConfig(frontend="log_spectrogram"),
            builder.PLAIN,
        ),
        "speed": (recordings, {}, usual, config(speed_perturb_factors=(0.9, 1.1))),
        "reverberation": (recordings, {}, usual, config(rir_dir=folders["rir_dir"], augmented_copies=1)),
        "noise": (recordings, {}, usual, config(noise_dir=folders["noise_dir"], augmented_copies=1)),
        "volume": (recordings, {}, usual, config(volume_db=6.0, augmented_copies=1)),
        "all effects": (recordings, {}, usual, all_effects),
        "text": (sentences, {"corpus": "text"}, usual, builder.PLAIN),
    }


@pytest.mark.parametrize("kind", HASHES)
def test_a_build_has_the_expected_bytes(tmp_path, corpora, kind):
    corpus_dir, options, frontend_config, augmentation = corpora[kind]
    config = builder.BuildConfig(
        corpus_dir=(corpus_dir,), output_dir=str(tmp_path / "data"), num_shards=1, num_workers=1, **options
    )
    info = builder.build(config, frontend_config, augmentation)
    shards = (info.splits[split].shards for split in ("train", "dev"))
    assert tuple(shard.sha256[:16] for (shard,) in shards) == HASHES[kind]
