"""Ours beside a peer in one run, ratios printed."""
