"""nmt: the encoder-decoder Transformer of Vaswani et al. (2017), from text to BLEU."""

__version__ = "0.1.0"
