"""Trains models: loss, learning rate, optimizer steps, processes and the training loop."""
