"""The Transformer of Vaswani et al. (2017) in plain torch: no files, no training.

`kernels` holds optimized implementations: matrix products, dropout masks, quantized weights and
CUDA graphs. Tests compare each with plain torch.
"""
