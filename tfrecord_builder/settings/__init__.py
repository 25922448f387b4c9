"""Settings: flags, their files, and the frame of a program."""
