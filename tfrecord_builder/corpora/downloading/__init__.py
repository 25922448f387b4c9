"""Downloads published corpora into a corpus directory.

archives lists the corpora, fetch downloads an archive or resumes its download, and corpus_directory unpacks
the archive.
"""
