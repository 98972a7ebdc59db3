"""The Transformer of Vaswani et al. (2017): pure torch, no files, no training."""
