"""One update of the weights: rates, sums over replicas and batches, clipping, the optimiser."""
