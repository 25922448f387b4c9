"""Converts audio to features.

audio_files reads recordings, through open_recording, with libsndfile (audio_stream, wav_header, stream_ends)
or FFmpeg (containers, ffmpeg_process). frontend computes their features, using whisper_log_mel for Whisper
models. spectrogram draws features. pretrained_encoder lists the families of pretrained encoders and the input
that each family needs. augmentation/ makes copies of utterances with altered sound.
"""
