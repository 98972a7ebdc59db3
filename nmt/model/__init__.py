"""Implements the Transformer of Vaswani et al. (2017) in PyTorch.

This package neither reads files nor trains models. Its subpackage `kernels` contains optimized
implementations, for example of matrix multiplication, dropout and int8 weights. Tests compare the
optimized implementations with standard PyTorch operations.
"""
