"""Files: local, S3, gs, and members of archives."""
