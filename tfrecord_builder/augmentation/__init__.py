"""Data augmentation: copies of utterances with another speed, reverberation, noise, volume or codec."""
