"""The checks that the doctor program performs."""
