"""Copies of utterances that sound different.

copies plans the copies of an utterance by augmentation_config, copy_ids names them, and effects, codecs and
sounds change the samples.
"""
