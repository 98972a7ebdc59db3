"""Optimized implementations of the layers' operations; tests compare each with plain torch."""
