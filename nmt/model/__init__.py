"""The Transformer of Vaswani et al. (2017) in plain PyTorch, without file access or training.

`kernels` contains optimized implementations of matrix multiplication, dropout masks, quantized
weights and CUDA graphs. Tests compare each implementation with plain PyTorch.
"""
