"""Measures the speed of training and translation, and the hardware's limits."""
