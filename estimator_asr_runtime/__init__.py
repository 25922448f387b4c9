"""Runs exported models of estimator_asr with ONNX Runtime or LiteRT; everything else is NumPy."""
