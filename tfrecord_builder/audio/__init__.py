"""Converts audio to features.

audio_files reads recordings through open_recording, which uses libsndfile (audio_stream, wav_header,
stream_ends) or FFmpeg (containers, ffmpeg_process). segment_reader reads many parts of one recording.
frontend computes features, using whisper_log_mel for Whisper models, and spectrogram draws them.
pretrained_encoder lists the families of pretrained encoders and the input that each family needs.
augmentation/ makes copies of utterances with altered sound.
"""
