"""One file a corpus, each with list_utterances(corpus_dir), and what they share: layout, json_lines."""
