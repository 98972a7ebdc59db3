"""The Transformer of Vaswani et al. (2017) in plain PyTorch, without file access or training.

`kernels` holds optimized implementations: matrix products, dropout masks, quantized weights and
CUDA graphs. Tests compare each of them with plain PyTorch.
"""
