"""Records: the items they are made from, how to read, check and draw them, and statistics of shards."""
