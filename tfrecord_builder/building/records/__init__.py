"""Records: the item that one is made of, reading and checking it, its picture, the counts of a shard."""
