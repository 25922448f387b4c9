"""N-gram language models over tokens: reads, writes and estimates models, and compiles them for decoding."""
