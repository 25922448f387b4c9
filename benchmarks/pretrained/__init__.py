"""Times training on Whisper's encoder, and `encode`, beside the same in PyTorch, and prints ratios."""
