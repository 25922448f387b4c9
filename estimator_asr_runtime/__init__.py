"""Runs models that estimator_asr exported: the graphs with ONNX Runtime or LiteRT, the rest with NumPy."""
