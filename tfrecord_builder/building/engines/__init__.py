"""Engines that run units of work on this machine, on Spark or on Ray. Programs call dispatch.connect()."""
