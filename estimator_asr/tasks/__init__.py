"""One task per kind of model: its features and labels, graph, losses and metrics."""
