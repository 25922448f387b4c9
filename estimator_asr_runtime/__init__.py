"""Runs exported models of estimator_asr by ONNX Runtime or LiteRT; everything else is NumPy."""
