"""Pretrained weights: published encoders, checkpoints, and other model directories.

encoder_weights reads published encoders, in the formats that whisper_layout and wav2vec2_layout describe.
decoder_weights and whisper_vocabulary read Whisper's decoder. warm_start and transfer copy weights into a new
model. encoder and shard_encoder apply a frozen encoder to the records in a data directory.
"""
