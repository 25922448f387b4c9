"""Tokens: vocabulary, syllables, readings."""
