"""TFRecords to a model, a SavedModel and a transcript, trained with TensorFlow Estimator."""
