"""Contains optimized operations for the model, which tests compare with PyTorch's operations."""
