"""An export in other formats than a SavedModel, for machines without TensorFlow."""
