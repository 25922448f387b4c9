"""What transcribes recordings and answers clients, from an export alone.

transcripts/ reads recordings of any length and writes what was recognised, recording_units divides
thousands of them between workers, and server/ answers HTTP requests.
"""
