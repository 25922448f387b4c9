"""The data directory: what the builder writes and the trainer reads.

recordings and manifest describe an utterance before its features are computed, schema its record, and
dataset_info the directory. Tokens are written by vocabulary; syllables and readings know pinyin.
"""
