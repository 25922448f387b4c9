"""Transcribes recordings and serves clients; an export is the only model file that this package needs.

transcripts/ reads recordings of any length and writes their transcripts, and alignment/ aligns them with the
text of what was said. recording_units divides thousands of recordings among workers, transcription_job writes
one transcript file per recording, and server/ responds to HTTP requests.
"""
