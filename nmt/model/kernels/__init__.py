"""Optimized implementations of the layers' operations; tests compare them with plain PyTorch."""
