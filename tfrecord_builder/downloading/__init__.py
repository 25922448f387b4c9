"""Downloads open corpora: the list of archives, resumable HTTP, unpacking, the corpus directory."""
