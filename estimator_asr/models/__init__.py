"""The acoustic and the language model, as functions from tensors to tensors.

acoustic and language build a model of the blocks in encoders, layers, attention and normalisation; losses
trains it. frozen_encoder, whisper, wav2vec2 and pretrained_blocks run pretrained encoders, whisper_decoder
and byte_pairs Whisper's decoder, streaming and streaming_search models that hear chunks. tasks/ joins a
model with its features, labels, metrics and decoding.
"""
