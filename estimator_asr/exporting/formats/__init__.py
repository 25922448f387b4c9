"""Exports in formats other than SavedModel, for machines without TensorFlow.

parts builds the graphs, rewriting replaces operations that a format lacks, and onnx and litert convert the
graphs. bundle writes the files and lists the formats; agreement compares their transcripts with the
SavedModel's. The files run in estimator_asr_runtime, whose backends.py has a class for each format.
"""
