"""Aligns recordings with the text that was read or said in them, and cuts both into utterances.

text_pairs finds the text of each recording; texts reads it and lists its sentences with their tokens;
frame_scores stores what the acoustic model hears in a recording; matching finds each sentence in it;
forced_alignment finds the times of the tokens; segments makes the utterances of a corpus, and lists what was
left out; written_words divides their text into words; time_files writes the times of the words for Praat,
sclite and players.

To check the transcripts of a corpus, utterances lists its utterances and recognises them; suspects compares
each of them with its transcript; corpus_check runs both, and writes the tables and the page.
"""
