"""CTC decoding as TensorFlow operations: from logits to hypotheses.

decoders chooses the search: greedy, or prefix_beam_search, whose prefixes scorers rank; frames, traces and
hypotheses are its parts. token_times says when tokens were spoken. character_search searches the candidates
of the language model.
"""
