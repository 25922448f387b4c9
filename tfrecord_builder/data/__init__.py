"""The data directory: records, dataset_info.json and manifest."""
