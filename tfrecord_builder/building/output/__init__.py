"""The output directory of a build: locking, staging and publishing."""
