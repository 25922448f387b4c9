"""Times the training step of the language model beside the same model in PyTorch, and prints the ratio."""
