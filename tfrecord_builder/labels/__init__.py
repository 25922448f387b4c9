"""Transcripts to labels: normalisation, pinyin, tone sandhi, numbers, subwords, vocabularies."""
