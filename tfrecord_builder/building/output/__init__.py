"""The output directory of a build: its lock, the staging directory, publishing."""
