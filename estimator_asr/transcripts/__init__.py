"""Recordings of any length: reading them, cutting them at pauses, and writing what was recognised."""
