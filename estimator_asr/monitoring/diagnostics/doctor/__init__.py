"""Checks that the doctor program runs."""
