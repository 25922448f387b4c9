"""Distributed training: cluster, strategies, precision, coordinated stop, evaluator."""
