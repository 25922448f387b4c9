"""Readers for published corpora and for the user's own tables.

registry maps the name of each corpus to its reader. The readers are grouped by layout: tables,
transcript_files, transcript_lists, kaldi, lhotse, json_lists, punctuated. layout, rows, segments, text_files
and json_lines contain code that several readers share. downloading/ fetches and unpacks published corpora.
"""
