"""Parts of an export besides its graph: the parity certificate, the model card, and files for servers."""
