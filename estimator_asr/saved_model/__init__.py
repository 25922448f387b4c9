"""Exports: one SavedModel from audio to text."""
