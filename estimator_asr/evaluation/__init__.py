"""Recognises a split, for evaluate, tune, export and pseudo_label.

recognised_split runs a model directory or an export, chunkwise runs a streaming model, and recorded runs an
export's LiteRT or ONNX model. tuning/ searches for decoding weights.
"""
