"""Audio: decoding, streams, frontends."""
