"""Implements training: the loss, the optimizers, distributed processes and the training loop."""
