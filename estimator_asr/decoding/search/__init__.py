"""CTC decoding as TensorFlow operations: from logits to hypotheses.

decoders selects the search: greedy or prefix_beam_search, which ranks prefixes with scorers and uses frames,
traces and hypotheses. token_times finds when tokens were spoken. character_search searches the language
model's candidates.
"""
