"""One file a corpus, each with list_utterances(corpus_dir)."""
