"""Audio to features.

audio_files reads recordings: with libsndfile (audio_stream, wav_header, stream_ends), or with FFmpeg
(containers, ffmpeg_process). frontend computes their features (with whisper_log_mel for Whisper's).
spectrogram draws features. pretrained_encoder lists the families of pretrained encoders and the input that
each needs. augmentation/ makes copies of utterances with altered sound.
"""
