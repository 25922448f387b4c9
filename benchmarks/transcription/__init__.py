"""Times transcription beside CTranslate2's Whisper base in int8, and prints real-time factors."""
