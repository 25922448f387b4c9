"""The demo: a synthesised corpus, its stages and its tables."""
