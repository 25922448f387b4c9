"""Readers of published corpora and of the user's own tables.

registry has the name of each corpus and its reader. The readers are grouped by layout: tables,
transcript_files, transcript_lists, kaldi, lhotse, json_lists; layout, rows, segments, text_files and
json_lines read what several layouts share. downloading/ fetches and unpacks published corpora.
"""
