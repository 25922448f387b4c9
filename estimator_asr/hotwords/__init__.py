"""Hotwords: from text to what a graph takes."""
