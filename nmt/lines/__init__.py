"""Implements `nmt translate` and `nmt score`, which process files or pipes line by line."""
