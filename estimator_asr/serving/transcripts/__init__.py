"""Recordings of any length: reads them, cuts them at pauses, and writes their transcripts."""
