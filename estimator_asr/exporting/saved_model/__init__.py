"""One SavedModel from audio to text.

saved_model_writer writes it and export_info describes it. Its signatures read WAV files (wav, resampling),
run both models (cascade, characters, model_pairs, proposals) and rank transcripts (ranking). recogniser
loads an export and runs it, stream_client one that streams.
"""
