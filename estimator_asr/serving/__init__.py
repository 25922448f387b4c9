"""Transcribes recordings and serves clients; the only model file that it needs is an export.

transcripts/ reads recordings of any length and writes their transcripts, recording_units divides thousands
of recordings among workers, transcription_job writes a file for each, and server/ responds to HTTP requests.
"""
