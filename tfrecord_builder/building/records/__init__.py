"""Records: the items they are made from, reading and checking, pictures, statistics of shards."""
