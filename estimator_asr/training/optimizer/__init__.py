"""The update of the weights: learning rate, accumulation, clipping, optimizer."""
