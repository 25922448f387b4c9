"""The acoustic, language and punctuation models, as functions from tensors to tensors.

acoustic, language and punctuation build models from the blocks in encoders, token_encoder, layers, attention
and normalisation; losses holds the loss functions. frozen_encoder, whisper and wav2vec2 run pretrained
encoders; whisper_decoder runs Whisper's decoder, and byte_pairs its tokenizer; streaming and streaming_search
serve models that process audio in chunks. tasks/ combines each model with its features, labels, metrics and
decoding.
"""
