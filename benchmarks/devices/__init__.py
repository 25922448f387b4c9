"""Times recognition without TensorFlow, by ONNX Runtime and LiteRT, beside the SavedModel and sherpa-onnx."""
