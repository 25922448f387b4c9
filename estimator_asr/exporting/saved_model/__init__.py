"""A SavedModel that turns audio into text.

saved_model_writer writes the SavedModel, and export_info describes it. The signatures read WAV files (wav,
resampling), run the models (cascade, model_pairs, proposals) and rank transcripts (ranking). recogniser
loads and runs an export, and stream_client runs a streaming export.
"""
