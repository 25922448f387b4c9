"""Benchmarks, most of which time our code and a peer's in the same run and print the ratios."""
