"""One Task per model: its features and labels, graph, losses, metrics and decoding."""
