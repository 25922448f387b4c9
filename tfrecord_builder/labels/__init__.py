"""Transcripts to labels: normalisation, numbers, pinyin, tone sandhi, subwords, vocabularies."""
