"""Times the server: one client, then sixteen at once, beside the bare SavedModel in batches."""
