"""Measures the speed of training and translation, and the maximum speed of the machine."""
