"""Engines for units of work: dispatch, which programs call; run_units; tasks, which workers run; failures."""
