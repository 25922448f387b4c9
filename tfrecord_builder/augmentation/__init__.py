"""Augmented copies of utterances: speed, reverberation, noise, volume, codec."""
