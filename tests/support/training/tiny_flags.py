"""Flags of the train program for tiny models."""

ACOUSTIC = ("--encoder_layers=1", "--encoder_units=16", "--encoder_inner_units=16", "--show_utterances=0")
LANGUAGE = (
    *("--language_layers=1", "--language_units=16", "--language_inner_units=16"),
    *("--ngram_rows=31", "--ngram_units=4", "--show_utterances=0"),
)
