"""Downloads published corpora into a corpus directory.

archives lists the corpora, fetch downloads an archive or resumes its download, and unpacking makes the
corpus directory from the archives.
"""
