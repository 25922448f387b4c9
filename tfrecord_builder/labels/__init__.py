"""Turns transcripts into labels: normalisation, numbers, pinyin, tone sandhi, subwords, vocabularies."""
