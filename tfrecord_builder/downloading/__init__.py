"""Corpora from the net: what there is, a resumable download, safe unpacking, and where it all goes."""
