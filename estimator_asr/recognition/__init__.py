"""What evaluate does with a model: opens it, and recognises a split."""
