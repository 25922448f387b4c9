"""Transcribes recordings and serves clients; an export is the only model file that this package needs.

transcripts/ reads recordings of any length and writes their transcripts, recording_units divides thousands
of recordings among workers, transcription_job writes one transcript file per recording, and server/ responds
to HTTP requests.
"""
