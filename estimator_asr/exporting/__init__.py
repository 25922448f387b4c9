"""An export: a SavedModel that turns audio into text, and its accompanying files.

saved_model/ builds and runs the graph. parity compares the export with the trained models on the utterances
that sample reads; model_card describes the export; deployment and sample_client support TensorFlow Serving;
formats/ converts the models to ONNX and LiteRT.
"""
