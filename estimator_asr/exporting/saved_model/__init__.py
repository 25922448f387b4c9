"""A SavedModel that turns audio into text.

saved_model_writer writes it and export_info describes it. Its signatures read WAV files (wav, resampling),
run both models (cascade, model_pairs, proposals) and rank transcripts (ranking). recogniser
loads and runs an export, and stream_client runs a streaming one.
"""
