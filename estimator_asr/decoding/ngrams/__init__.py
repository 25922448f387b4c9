"""N-gram language models of tokens: ARPA files, estimation, arrays for decoding. Python and numpy only."""
