"""One Task per model, which defines the model's features, labels, graph, losses, metrics and decoding."""
