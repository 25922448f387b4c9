"""Audio to features.

audio_files opens a recording (audio_stream, containers, unfinished_wav, stream_ends read its bytes), and
frontend computes its features: spectrogram, whisper_log_mel, or the waveform itself. pretrained_encoder
names the families of encoders and what each of them hears. augmentation/ makes copies of utterances that
sound different.
"""
