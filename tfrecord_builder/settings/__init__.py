"""Command-line programs: flags, flag files, console scripts and error handling."""
