"""Downloads published corpora into a corpus directory.

archives.py lists the corpora, fetch.py downloads an archive or resumes its download, and unpacking.py makes
the corpus directory from the archives.
"""
