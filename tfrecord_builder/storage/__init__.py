"""Storage: local files, object stores (S3, Google Cloud Storage) and members of archives."""
