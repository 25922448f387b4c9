"""The directory that shards are written to: its lock, files in the making, publishing."""
