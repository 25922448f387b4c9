"""Augmented copies of utterances, which sound different from the original.

copies plans the copies of an utterance from the settings in augmentation_config, copy_ids defines the marks
in the ids of copies, and effects, codecs and sounds change the samples.
"""
