"""Steps that are no number: kept, and run again."""
