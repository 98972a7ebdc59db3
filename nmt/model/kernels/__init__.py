"""Contains optimized replacements for PyTorch operations."""
