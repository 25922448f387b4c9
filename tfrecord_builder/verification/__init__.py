"""Finding everything that is wrong with a data directory."""
