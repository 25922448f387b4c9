"""Weights that somebody has trained: published encoders, checkpoints, other model directories.

encoder_weights reads a published encoder by whisper_layout or wav2vec2_layout, decoder_weights and
whisper_vocabulary Whisper's decoder. warm_start and transfer copy weights into a new model. encoder and
shard_encoder run the frozen encoder over the records of a data directory.
"""
