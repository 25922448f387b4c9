"""Speech recognition with TensorFlow Estimator: training from TFRecords, export, transcription, serving."""
