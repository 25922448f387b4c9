"""One SavedModel from audio to text."""
