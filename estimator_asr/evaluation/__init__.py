"""Recognises a split, for evaluate, tune, export and pseudo_label.

recognised_split runs a model directory or an export, chunkwise a streaming one, recorded an export in
another format; tuning/ searches for the weights of decoding.
"""
