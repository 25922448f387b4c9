"""Published corpora from the network to a corpus directory.

archives lists them, fetch downloads an archive and continues an interrupted download, and corpus_directory
unpacks it.
"""
