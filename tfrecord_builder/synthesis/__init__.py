"""Synthetic speech: text and speakers to recordings with a manifest."""
