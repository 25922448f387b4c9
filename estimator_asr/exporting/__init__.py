"""An export: a SavedModel that turns audio into text, and the files beside it.

saved_model/ builds and runs the graph. parity compares it with the trained models on the utterances that
sample reads, model_card describes it, deployment and sample_client support TensorFlow Serving, and formats/
converts it to ONNX and LiteRT.
"""
