"""The checks of the doctor program."""
