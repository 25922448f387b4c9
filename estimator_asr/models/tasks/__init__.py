"""One Task per model, which defines its features and labels, graph, losses, metrics and decoding."""
