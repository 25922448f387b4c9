"""One task per model: its features and labels, graph, losses and metrics."""
