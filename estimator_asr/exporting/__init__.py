"""An export: one SavedModel from audio to text, and what lies beside it.

saved_model/ builds and runs the graph. parity compares it with the models on the utterances of sample,
model_card describes it, deployment and sample_client are for TensorFlow Serving, and formats/ converts it
to ONNX and LiteRT.
"""
