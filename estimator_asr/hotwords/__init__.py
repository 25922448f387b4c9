"""Hotwords: read and checked (hotword_list), parsed by the graph (in_graph), searched for (boosting)."""
