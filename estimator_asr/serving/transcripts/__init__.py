"""Reads recordings of any length, cuts them at pauses, and writes their transcripts."""
