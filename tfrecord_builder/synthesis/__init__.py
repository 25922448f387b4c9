"""Synthesises speech: turns text and speakers into recordings with a manifest."""
