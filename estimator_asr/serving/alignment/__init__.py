"""Aligns recordings with the text that was read or said in them, and cuts both into utterances.

text_pairs finds the text of each recording; texts reads it and lists its sentences with their tokens;
frame_scores stores what the acoustic model hears in a recording; matching finds each sentence in it;
forced_alignment finds the times of the tokens; segments makes the utterances of a corpus, and lists what was
left out; written_words divides their text into words; word_times estimates when these begin and end;
time_files writes the times for Praat, sclite, players.

For a corpus that is cut already, utterances lists it; utterance_units recognises it; suspects compares each
utterance with its transcript; corpus_check runs all three, and writes the tables and the page.
"""
