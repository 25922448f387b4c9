"""Makes directories with noises and room impulse responses, for tests of augmentation."""

import os
import pathlib

import numpy as np
import small_corpora

from tfrecord_builder.audio.augmentation import augmentation_config, copies


def noise(num_samples: int, seed: int = 0, level: float = 0.1) -> np.ndarray:
    """Returns white noise, float32 [num_samples]."""
    return (level * np.random.RandomState(seed).standard_normal(num_samples)).astype(np.float32)


def make_folders(directory: pathlib.Path) -> dict[str, str]:
    """Writes two impulse responses, two noises and a text file; returns the flags for their directories."""
    rate, rir = small_corpora.SAMPLE_RATE, np.zeros(800, np.float32)
    rir[[100, 400]] = [0.8, 0.3]
    for name in ("hall1.wav", os.path.join("far", "my room (2).wav")):
        small_corpora.write_audio(directory / "rooms" / name, rir)
    small_corpora.write_audio(directory / "noises" / "cafe.wav", noise(3 * rate))
    small_corpora.write_audio(directory / "noises" / "street.flac", noise(rate // 2, seed=1))
    small_corpora.write_text(directory / "noises" / "README.txt", "from somewhere")
    return {"rir_dir": str(directory / "rooms"), "noise_dir": str(directory / "noises")}


def find_sources(**folders) -> copies.Sources:
    """Returns the noises and impulse responses in the directories."""
    num_copies = 1 if any(folders.values()) else 0
    config = augmentation_config.AugmentationConfig(**folders, augmented_copies=num_copies)
    return copies.find_sources(config)
