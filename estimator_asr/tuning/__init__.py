"""Search for the weights of decoding on dev."""
