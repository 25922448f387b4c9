"""Engines that run units of work on this machine, Spark or Ray. Programs call dispatch.connect()."""
