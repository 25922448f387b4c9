"""Optimizer: learning rate, gradient accumulation, clipping, loss scaling, weight update."""
