"""Distributed training: the cluster and its processes, distribution strategies and precision."""
