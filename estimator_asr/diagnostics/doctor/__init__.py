"""The checks that doctor runs."""
