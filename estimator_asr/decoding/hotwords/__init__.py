"""Hotwords: reading and checking (hotword_list), parsing in the graph (in_graph), and boosting."""
