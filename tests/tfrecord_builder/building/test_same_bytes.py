"""Builds have the same bytes with each TensorFlow release.

The features are float16, because float32 features differ in the last bit between CPU types.
"""

import built_data
import pytest
import small_augmentation
import small_corpora

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
    """Returns the corpus directory and the flags for each kind of build."""
    path = tmp_path_factory.mktemp("corpora")
    folders = small_augmentation.make_folders(path)
    recordings = small_corpora.make_manifest_corpus(path / "recordings", num_train=3, num_dev=1)
    sentences = small_corpora.make_text_corpus(path / "sentences")
    return {
        "log_mel": (recordings, {}),
        "log_spectrogram": (recordings, {"frontend": "log_spectrogram"}),
        "speed": (recordings, {"speed_perturb_factors": (0.9, 1.1)}),
        "reverberation": (recordings, {"rir_dir": folders["rir_dir"], "augmented_copies": 1}),
        "noise": (recordings, {"noise_dir": folders["noise_dir"], "augmented_copies": 1}),
        "volume": (recordings, {"volume_db": 6.0, "augmented_copies": 1}),
        "all effects": (recordings, {**folders, "augmented_copies": 2, "volume_db": 6.0}),
        "text": (sentences, {"corpus": "text"}),
    }


@pytest.mark.parametrize("kind", HASHES)
def test_a_build_has_the_expected_bytes(tmp_path, corpora, kind):
    corpus_dir, flags = corpora[kind]
    info = built_data.build(corpus_dir, tmp_path / "data", num_shards=1, **flags)
    shards = (info.splits[split].shards for split in ("train", "dev"))
    assert tuple(shard.sha256[:16] for (shard,) in shards) == HASHES[kind]
