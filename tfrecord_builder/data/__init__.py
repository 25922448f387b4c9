"""Formats of the data directory, which the builder writes and the trainer reads.

manifest defines the utterances of a corpus, and schema the records. recordings finds the recording of each
record, and dataset_info describes the directory. vocabulary, syllables and readings handle tokens and pinyin.
"""
