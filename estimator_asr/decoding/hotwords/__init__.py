"""Hotwords: hotword_list reads them, in_graph parses them in the graph, and boosting raises their scores."""
