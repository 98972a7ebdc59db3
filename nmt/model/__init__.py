"""The Transformer of Vaswani et al. (2017) in plain torch: no files, no training.

`kernels` holds what is there for speed alone: faster products, dropout masks, quantized weights,
CUDA graphs. Tests compare each with plain torch.
"""
