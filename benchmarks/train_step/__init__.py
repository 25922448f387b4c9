"""Times the acoustic training step beside the same Conformer in PyTorch, and prints ratios."""
